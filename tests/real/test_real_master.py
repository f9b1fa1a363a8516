"""What the tables say about a master is held against the real one that is installed."""

import re
import subprocess
import sys
import textwrap

import pytest
from installed import needs

from hicachectl.exits import BadInputError
from hicachectl.lab import store as lab_store
from hicachectl.mooncake import master
from hicachectl.mooncake.client import ClientSettings, Session

pytestmark = pytest.mark.real
LEASE_MS = 1500
REMOVE_AFTER = textwrap.dedent("""
    import os, sys, time, urllib.request
    from mooncake.store import MooncakeDistributedStore
    address, lease, url = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", address) == 0
    assert store.put("asked", b"x" * 100) == 0
    time.sleep(lease)
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url).read()
    print("removed", store.remove("asked"), flush=True)
    os._exit(0)
""")


@pytest.fixture(scope="module")
def running():
    """A store with leases short enough to outwait."""
    needs("mooncake")
    with lab_store.running(segment=64 << 20, lease_ttl_ms=LEASE_MS) as store:
        yield store


def test_keys_that_need_encoding_are_asked_where_the_master_decodes(running):
    """Since 0.3.12 the batch look-up takes any key but one with a comma; before, such a key is refused and not misjudged."""
    keys = ["a b", "a%b", "a&b", "a+b", "a#b", "\u00e9"]
    with Session.open(ClientSettings(running.master, local_hostname="127.0.0.1")) as session:
        session.setup()
        session.buffers(1 << 16)
        for key in keys:
            session.put(key, 100)
        try:
            if master.query_for(release(running)).takes_lease:
                with pytest.raises(BadInputError, match="cannot be asked"):
                    master.batch_query_keys(running.http, keys)
            else:
                found = master.batch_query_keys(running.http, [*keys, "not there"])
                assert {key: copies is not None for key, copies in found.items()} == dict.fromkeys(keys, True) | {
                    "not there": False
                }
        finally:
            session.remove(keys)


def release(store) -> str:
    """The release of the installed client, which is the master's too."""
    with Session.open(ClientSettings(store.master)) as session:
        return session.about().release


def removal_after(store, path: str) -> int:
    """The code of a plain removal right after an object without a lease was asked for over HTTP."""
    words = [sys.executable, "-c", REMOVE_AFTER, store.master, str(LEASE_MS / 1000 + 0.3), f"{store.http}{path}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    with Session.open(ClientSettings(store.master, local_hostname="127.0.0.1")) as session:
        session.setup()
        session.remove(["asked"])
    return int(re.search(r"removed (-?\d+)", done.stdout)[1])


def test_the_gentlest_query_takes_a_lease_exactly_where_the_table_says(running):
    """After the release's gentlest look-up a plain removal is refused where the table says that it leases, and else works."""
    query = master.query_for(release(running))
    code = removal_after(running, f"{query.path}?keys=asked")
    assert (code == -706) == query.takes_lease


def test_a_single_query_takes_a_lease(running):
    """Asking for one key leases it, in every release."""
    assert removal_after(running, "/query_key?key=asked") == -706


def test_reading_the_master_asks_for_no_key(running):
    """Health, gauges, segments and the list of keys move no counter of the objects."""
    before = master.operations(master.metrics(running.http))
    master.health(running.http)
    master.sample(running.http)
    master.keys(running.http)
    master.summary(running.http)
    after = master.operations(master.metrics(running.http))
    assert {name: after[name] for name in after if name not in {"ping", "fetch_tasks"}} == {
        name: before[name] for name in before if name not in {"ping", "fetch_tasks"}
    }


def test_keys_copies_and_missing_keys(running):
    """A key that was put is listed and has its copy; another one has none."""
    with Session.open(ClientSettings(running.master, local_hostname="127.0.0.1")) as session:
        session.setup()
        session.buffers(1 << 16)
        session.put("mine", 5000)
        try:
            [copy] = master.query_key(running.http, "mine")
            both = master.batch_query_keys(running.http, ["mine", "not-there"])
            listed = master.keys(running.http)
        finally:
            session.remove(["mine"])
    assert (copy.size, copy.protocol) == (5000, "tcp")
    assert re.fullmatch(r"127\.0\.0\.1:\d+", copy.endpoint)
    assert both == {"mine": [copy], "not-there": None}
    assert listed == ["mine"]


def test_the_dialect_is_that_of_the_installed_master(running):
    """Watermark and lease of the release are the defaults that the binary's own help states."""
    text = subprocess.run(
        [str(lab_store.master_binary()), "--help"], capture_output=True, text=True, check=False
    ).stdout
    flags = {
        name: re.search(rf"-{name} .*?default:\s*\"?([\d.]+)", text, re.DOTALL)[1]
        for name in ("eviction_high_watermark_ratio", "default_kv_lease_ttl")
    }
    dialect = master.health(running.http).dialect
    assert dialect.eviction_watermark == pytest.approx(float(flags["eviction_high_watermark_ratio"]))
    assert dialect.lease_ms == int(flags["default_kv_lease_ttl"])


@pytest.mark.parametrize("key", ["a/b@c:d", "a=b", "-models-llama_0f_0_k", "(tag)*~'x'!;$?"])
def test_keys_go_to_the_master_as_they_are(running, key):
    """A key with any character that a URL may hold is asked as it is, by both look-ups."""
    with Session.open(ClientSettings(running.master, local_hostname="127.0.0.1")) as session:
        session.setup()
        session.buffers(1 << 16)
        session.put(key, 100)
        try:
            assert master.query_key(running.http, key) is not None
            assert master.batch_query_keys(running.http, ["before", key, "after"])[key] is not None
        finally:
            session.remove([key])
