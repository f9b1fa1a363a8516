"""The master over HTTP: what its answers are read as, and that nonsense ends in one sentence."""

import time

import answering
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mooncake_answers import METRICS_0_3_11

from hicachectl.exits import BadInputError, OperatorError, UnreachableError
from hicachectl.mooncake import master

OLD_HEALTH = b'{"status":"ok","role":"leader","ha_state":"serving","service_ready":true}'
NEW_HEALTH = (
    b'{"status":"ok","role":"standby","ha_state":"x","service_ready":false,"leader_address":null,"view_version":null}'
)
COPY = b'{"size_":4096,"buffer_address_":1,"protocol_":"tcp","transport_endpoint_":"127.0.0.1:15121"}'


def test_health_of_an_old_master():
    """A health answer without a leader's address is that of a release before 0.3.12, with its watermark and its leases."""
    with answering.server({"/health": (200, OLD_HEALTH)}) as url:
        health = master.health(url)
    assert (health.service_ready, health.role, health.dialect.eviction_watermark, health.dialect.lease_ms) == (
        True,
        "leader",
        0.95,
        5000,
    )


def test_health_of_a_standby_that_answers_503():
    """A standby's HTTP 503 is an answer, not a failure: it says that it does not serve."""
    with answering.server({"/health": (503, NEW_HEALTH)}) as url:
        health = master.health(url)
    assert (health.service_ready, health.role, health.dialect.eviction_watermark) == (False, "standby", 0.90)


def test_sample_adds_the_counters_up():
    """A sample holds keys, memory, evictions and failures, single and batch calls added, and counts the segments."""
    with answering.server({"/metrics": (200, METRICS_0_3_11), "/get_all_segments": (200, b"a:1\nb:2\n")}) as url:
        sample = master.sample(url)
    assert sample == {
        "keys": 74,
        "soft_pinned_keys": 0,
        "used_bytes": 606208,
        "capacity_bytes": 67108864,
        "clients": 2,
        "evicted_keys": 3,
        "evicted_bytes": 12288,
        "evictions": 1,
        "eviction_attempts": 2,
        "alloc_failures": 5,
        "put_failures": 9,
        "get_failures": 4,
        "exist_failures": 0,
        "segments": 2,
    }


def test_operations_pair_requests_with_failures():
    """Each operation of the master is told with its requests and its failures."""
    operations = master.operations(master.parse_metrics(METRICS_0_3_11.decode()))
    assert operations["put_start"] == (12, 2)
    assert operations["batch_put_start"] == (10, 7)


def test_metrics_keep_labels_and_whole_numbers():
    """Labels stay in the name, whole numbers stay exact, comments and broken lines are skipped."""
    text = '# HELP x y\nsegment{name="a b"} 9007199254740993\nratio 0.5 1700000000\nbroken\nx{ 1\nnot a_number here\n'
    assert master.parse_metrics(text) == {'segment{name="a b"}': 9007199254740993, "ratio": 0.5}


@given(st.text())
def test_metrics_never_fail_on_any_text(text):
    """Whatever text a page holds, reading it raises nothing."""
    master.parse_metrics(text)


@pytest.mark.parametrize("body", [COPY + b"\n", b'{"success":true,"data":[' + COPY + b"]}"], ids=["0.3.11", "0.3.13"])
def test_query_key_reads_both_forms(body):
    """A copy is read from a line of its own, as old masters answer, and from the list that newer ones wrap it in."""
    with answering.server({"/query_key": (200, body)}) as url:
        assert master.query_key(url, "k") == [master.Copy(4096, "tcp", "127.0.0.1:15121")]


@pytest.mark.parametrize(
    "body", [b"OBJECT_NOT_FOUND", b'{"success":false,"error_code":-704,"error_message":"OBJECT_NOT_FOUND"}']
)
def test_query_key_of_a_missing_key_is_none(body):
    """A key that the master lacks is None in the bare and in the JSON form."""
    with answering.server({"/query_key": (404, body)}) as url:
        assert master.query_key(url, "k") is None


def test_query_key_where_there_is_no_such_page():
    """A 404 of something that is no master is not taken for a missing key."""
    with answering.server({}) as url, pytest.raises(BadInputError, match="admin port"):
        master.query_key(url, "k")


def test_batch_query_keys_tells_present_from_missing():
    """Each key that was asked has its copies, or None."""
    body = (
        b'{"success":true,"data":{"a":{"ok":true,"values":['
        + COPY
        + b']},"b":{"ok":false,"error":"OBJECT_NOT_FOUND"}}}'
    )
    with answering.server({"/batch_query_keys": (200, body)}) as url:
        found = master.batch_query_keys(url, ["a", "b", "never-answered"])
    assert found == {"a": [master.Copy(4096, "tcp", "127.0.0.1:15121")], "b": None, "never-answered": None}


def test_batch_query_keys_refuses_a_comma():
    """A key with a comma cannot be asked of an endpoint that splits at commas."""
    with pytest.raises(BadInputError, match="comma"):
        master.batch_query_keys("http://127.0.0.1:1", ["a,b"])


@pytest.mark.parametrize(
    ("release", "gentle"), [("0.3.11.post1", False), ("0.3.12", True), ("0.3.13.post1", True), ("0.4.0", True)]
)
def test_the_gentlest_query_of_a_release(release, gentle):
    """Looking keys up in a batch neither leases nor counts since 0.3.12, and does both before."""
    query = master.query_for(release)
    assert (query.takes_lease, query.counts_as_hit) == (not gentle, not gentle)


NONSENSE = [
    (200, b"<html>hello</html>"),
    (200, b"[1, 2]"),
    (200, b"\xff\xfe\x00"),
    (200, b""),
    (500, b"boom \x1b[31m"),
    (301, b""),
]
QUESTIONS = {
    "health": master.health,
    "metrics": master.metrics,
    "sample": master.sample,
    "query_key": lambda url: master.query_key(url, "k"),
    "batch": lambda url: master.batch_query_keys(url, ["k"]),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("answer", NONSENSE, ids=[str(index) for index in range(len(NONSENSE))])
def test_nonsense_is_bad_input_in_one_line(name, answer):
    """What no master says ends in one printable sentence, whatever was asked."""
    with answering.server({}, default=answer) as url, pytest.raises(BadInputError) as raised:
        QUESTIONS[name](url)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize(
    "payload", [b"\x00\x01binary", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"]
)
def test_what_does_not_speak_http_is_told(name, payload):
    """Another protocol behind the port, or an answer that is cut off, is an expected end."""
    with answering.raw(payload) as url, pytest.raises(OperatorError):
        QUESTIONS[name](url)


def test_a_silent_port_is_unreachable_within_the_time_out():
    """A port that accepts and says nothing costs the time-out and no more."""
    began = time.monotonic()
    with answering.silent() as url, pytest.raises(UnreachableError, match="no answer"):
        master.sample(url, timeout=0.3)
    assert time.monotonic() - began < 3


def test_an_endless_answer_is_cut(monkeypatch):
    """An answer without an end is refused at a bound."""
    monkeypatch.setattr(master, "LARGEST_ANSWER", 1 << 20)
    with (
        answering.raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 65536, forever=True) as url,
        pytest.raises(BadInputError, match="does not stop"),
    ):
        master.keys(url)


@pytest.mark.parametrize(("head", "piece"), [(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), (b"HTTP/1.1 200 OK\r\n\r\n", b" ")], ids=["headers", "body"])
def test_an_answer_that_drips_is_cut(head, piece, monkeypatch):
    """What never ends and is never silent for long is hung up on, though it be in the middle of its headers."""
    monkeypatch.setattr(master, "LONGEST_ANSWER_S", 0.5)
    with answering.slow(head, piece, 0.1) as url, pytest.raises(BadInputError, match="does not stop"):
        master.health(url)


def test_a_closed_port_is_unreachable():
    """Nobody at the port is unreachable, with the address in the sentence."""
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        master.health("http://127.0.0.1:1")


@pytest.mark.parametrize("base", ["nonsense", "http://[::1", "ftp://x", "", "http://"])
def test_a_url_that_is_none_is_bad_input(base):
    """A base that is no URL is bad input, never a traceback."""
    with pytest.raises(BadInputError):
        master.health(base)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.1:50051", "http://10.0.0.1:9003"),
        ("[::1]:50051", "http://[::1]:9003"),
        ("host", "http://host:9003"),
        ("http://h:1", "http://h:9003"),
    ],
)
def test_the_admin_port_lies_beside_the_rpc_address(address, url):
    """The admin URL takes the host of the RPC address, IPv6 brackets kept, and the port that SGLang assumes."""
    assert master.base_url(address) == url


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    """The store's own network is asked directly, whatever proxy the environment names."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with answering.server({"/health": (200, OLD_HEALTH)}) as url:
        assert master.health(url).service_ready


@pytest.mark.parametrize("key", ["a b", "a%20b", "a&b", "a#b", "a+b", "\u00e9", "a\nb", ""])
def test_a_key_that_a_url_cannot_hold_is_refused(key):
    """A key that would have to be encoded is not asked, because masters answer "not there" for its encoded form."""
    with pytest.raises(BadInputError, match="cannot be asked"):
        master.query_key("http://127.0.0.1:1", key)
    with answering.server({"/health": (200, OLD_HEALTH)}) as url, pytest.raises(BadInputError, match="cannot be asked"):
        master.batch_query_keys(url, [key])
