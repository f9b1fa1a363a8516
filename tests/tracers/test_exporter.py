"""Spans on their way to a collector while the process runs: each arrives as the file has it, or is counted."""

import json
import logging
import socket
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from collecting import by_id, listener, receiver, unused, work

from hicachectl import store
from tracers import otlp, settings, wire
from tracers import vocabulary as v
from tracers.settings import GRPC, JSON, PROTOBUF, Collector

SOON = 3.0
"""Seconds in which a process has ended that may take one, on a machine that has other things to do; a request's time-out is 10."""


def http(url: str, protocol: str = JSON, **more: str) -> dict[str, str]:
    """Variables that name a collector for spans alone: metrics have tests of their own."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_METRICS_EXPORTER": "none", **more}


def adds_up(ledger: dict[str, Any]) -> bool:
    """Every span that was written was sent or dropped, and none waits."""
    export = ledger["export"]
    return ledger["written"] == export["sent"] + export["dropped"] and export["waiting"] == 0 == ledger["dropped"]


# -- what arrives --------------------------------------------------------------------------------------------------------
def test_what_arrives_is_what_the_file_has(tmp_path: Path) -> None:
    """Span by span: ids, names, times, attributes, resource; and the ledger says how many were sent."""
    with receiver() as there:
        done = work(tmp_path / "run", http(there.url), (700, 0.3), (5, 0.2))
        assert by_id(there.documents()) == done.spans()
    assert len(done.spans()) > 705
    assert done.ledger()["export"] == {"sent": done.ledger()["written"], "dropped": 0, "waiting": 0}
    assert len(there.bodies) < 100, "a busy process sends few large requests"
    assert done.told == ""


def test_protobuf_and_compression_carry_the_same(tmp_path: Path) -> None:
    """Read back with protobuf's own classes, http/protobuf with gzip holds what the file holds."""
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    with receiver(answer=(200, "application/x-protobuf", b"")) as there:
        done = work(tmp_path / "run", http(there.url, PROTOBUF, OTEL_EXPORTER_OTLP_COMPRESSION="gzip"), (200, 0.1))
    assert {told["content-type"] for told in there.headers} == {"application/x-protobuf"}
    found = [trace_service.ExportTraceServiceRequest.FromString(body) for body in there.unpacked()]
    spans = {span.span_id.hex(): span for one in found for group in one.resource_spans for scope in group.scope_spans for span in scope.spans}
    assert spans.keys() == done.spans().keys()
    for id_, span in done.spans().items():
        there_span = spans[id_]
        assert (there_span.name, str(there_span.start_time_unix_nano)) == (span["name"], span["startTimeUnixNano"])
        assert [pair.key for pair in there_span.attributes] == [pair["key"] for pair in span["attributes"]]


def test_headers_resource_and_path_are_as_opentelemetry_specifies(tmp_path: Path) -> None:
    """Headers and resource attributes are unescaped, the signal's own variable wins and its path is kept."""
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{unused()}",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20a%2Cb, x-scope = 1",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": JSON,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=lab%20one,service.name=left-out,host.name=not-ours",
        "OTEL_SERVICE_NAME": "prefill",
    }
    with receiver() as there:
        done = work(tmp_path / "run", {**env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{there.url}/otel/v1/traces"}, (1, 0.1))
    assert {(told["path"], told["authorization"], told["x-scope"]) for told in there.headers} == {("/otel/v1/traces", "Bearer a,b", "1")}
    resource = {pair["key"]: pair["value"] for pair in next(iter(done.spans().values()))["resource"]}
    assert resource["deployment.environment"] == {"stringValue": "lab one"}
    assert resource["service.name"] == {"stringValue": "prefill"}
    assert resource["host.name"] == {"stringValue": socket.gethostname()}


def test_a_parent_that_ends_its_schedulers_tells_the_collector(tmp_path: Path) -> None:
    """It has nothing else to send, and is killed right after: its ledger arrives all the same."""
    (tmp_path / "run").mkdir()  # its schedulers have made it
    with receiver() as there:
        done = work(tmp_path / "run", http(there.url), (0, 0.0), scheduler=False, say_end=True)
        (span,) = by_id(there.documents()).values()
    told = {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}
    assert span["name"] == v.LEDGER
    assert told[v.CLOSED] is True
    assert int(told[v.ENDED]) == done.ledger()["ended_ms"]
    assert int(told[v.PARENT_PID]) == done.ledger()["ppid"]


def test_an_idle_process_tells_that_it_lives(tmp_path: Path) -> None:
    """A scheduler is killed in the end: without a file beside, only its repeated ledger shows that it was there until then."""
    with receiver() as there:
        work(tmp_path / "run", http(there.url), (1, 3.9))
        seen = sorted(int(span["startTimeUnixNano"]) for span in by_id(there.documents()).values() if span["name"] == v.LEDGER)
    assert max(after - before for before, after in pairwise(seen)) < 4.5e9
    assert len(seen) >= 3


# -- what does not arrive ------------------------------------------------------------------------------------------------
def test_a_collector_that_is_not_there_costs_a_count_and_a_warning(tmp_path: Path) -> None:
    """The file is complete, every span counted as dropped, one line said, and the process ends at once."""
    done = work(tmp_path / "run", http(f"http://user:secret@{unused()}"), (800, 0.3))
    assert len(done.spans()) == done.ledger()["written"] > 800
    assert done.ledger()["export"]["sent"] == 0
    assert adds_up(done.ledger())
    assert done.told.count("spans do not reach the collector") == 1
    assert "secret" not in done.told
    assert done.end_s < SOON


@pytest.mark.parametrize("protocol", [JSON, PROTOBUF, GRPC])
def test_a_listener_that_never_answers_keeps_nobody(protocol: str, tmp_path: Path) -> None:
    """What was sent to it counts as dropped; the process does not wait for its time-out."""
    if protocol == GRPC:
        pytest.importorskip("grpc")
    with listener(lambda connection: None) as place:
        done = work(tmp_path / "run", http(f"http://{place}", protocol), (800, 0.3))
    assert len(done.spans()) == done.ledger()["written"] > 800
    assert done.ledger()["export"]["sent"] == 0
    assert adds_up(done.ledger())
    assert done.end_s < SOON


NONSENSE = {
    "banner": lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "hang up": lambda connection: connection.close(),
    "for ever": lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000),
    "bytes": lambda connection: connection.sendall(bytes(range(256)) * 50),
}


@pytest.mark.parametrize("protocol", [PROTOBUF, GRPC])
@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_no_answer(kind: str, protocol: str, tmp_path: Path) -> None:
    """Whatever another service says at that port: the file is complete and the drops are counted."""
    if protocol == GRPC:
        pytest.importorskip("grpc")
    with listener(NONSENSE[kind]) as place:
        done = work(tmp_path / "run", http(f"http://{place}", protocol), (50, 0.3))
    assert len(done.spans()) == done.ledger()["written"] > 50
    assert done.ledger()["export"]["sent"] == 0
    assert adds_up(done.ledger())
    assert done.ledger()["faults"] == []
    assert done.end_s < SOON


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((400, "text/plain", b"bad"), "HTTP 400"),
        ((302, "text/html", b""), "HTTP 302"),
        ((200, "text/html", b"<html>welcome</html>"), "no collector"),
        ((200, "application/json", b"[1]"), "no collector"),
        ((200, "application/x-protobuf", b"\xff\xff"), "no collector"),
    ],
)
def test_a_refusal_is_counted_and_said_once(answer: tuple[int, str, bytes], why: str, tmp_path: Path) -> None:
    """A batch that will never be taken is not sent again."""
    with receiver(answer=answer) as there:
        done = work(tmp_path / "run", http(there.url), (10, 0.3), (10, 0.3))
    assert done.ledger()["export"]["sent"] == 0
    assert adds_up(done.ledger())
    assert done.told.count(why) == 1


def test_spans_that_a_collector_rejects_of_a_batch_are_counted(tmp_path: Path) -> None:
    """ExportTraceServiceResponse.partial_success, in JSON and in protobuf."""
    answers = [
        (200, "application/json", b'{"partialSuccess": {"rejectedSpans": "1"}}'),
        (200, "application/x-protobuf", b"\x0a\x02\x08\x01"),
    ]
    with receiver(answers=answers) as there:
        done = work(tmp_path / "run", http(there.url), (10, 0.3), (10, 0.3))
    assert done.ledger()["export"]["dropped"] == 2
    assert adds_up(done.ledger())


def test_a_busy_collector_gets_the_same_batch_again(tmp_path: Path) -> None:
    """Answers that ask for patience cost time and no span."""
    with receiver(answers=[(503, "text/plain", b""), (429, "text/plain", b"")]) as there:
        done = work(tmp_path / "run", http(there.url), (10, 1.9))
        assert by_id(there.documents()).keys() == done.spans().keys()
    assert done.ledger()["export"]["dropped"] == 0


def test_a_slow_collector_gets_what_it_can_take(tmp_path: Path) -> None:
    """It answers each request after 0.3 s and little may wait: what arrived is what counts as sent, the rest as dropped, and nobody waits for it."""
    with receiver(delay=0.3) as there:
        done = work(tmp_path / "run", http(there.url, HICACHECTL_COLLECTOR_BYTES="400000"), (6000, 0.5), (6000, 0.5))
        arrived = by_id(there.documents())
    export = done.ledger()["export"]
    assert len(done.spans()) == done.ledger()["written"] > 12_000
    assert adds_up(done.ledger())
    assert 0 < export["sent"] < done.ledger()["written"]
    assert export["dropped"] > 0
    # What was under way at the end counts as dropped, and may have arrived.
    assert export["sent"] <= len(arrived) <= export["sent"] + otlp.MOST_SPANS
    assert arrived.items() <= done.spans().items()
    assert done.end_s < SOON


def test_a_collector_that_stops_and_comes_back_misses_nothing(tmp_path: Path) -> None:
    """What was written meanwhile is sent when it is there again, once."""
    port = int(unused().rpartition(":")[2])
    taken: list[dict[str, Any]] = []

    def collect() -> None:
        for listens, pause in ((1.2, 1.0), (8.0, 0.0)):
            with receiver(port) as there:
                time.sleep(listens)
            taken.extend(there.documents())
            time.sleep(pause)

    collecting = threading.Thread(target=collect)
    collecting.start()
    done = work(tmp_path / "run", http(f"http://127.0.0.1:{port}"), *[(100, 0.4)] * 12, (5, 1.0))
    collecting.join()
    assert done.ledger()["export"] == {"sent": done.ledger()["written"], "dropped": 0, "waiting": 0}
    assert by_id(taken) == done.spans()
    assert done.told.count("spans do not reach the collector") == 1


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    """With a collector that hangs, 30,000 spans of some 17 MB leave at most the bound in memory; what does not fit is counted at once."""
    bound = {"HICACHECTL_COLLECTOR_BYTES": "1000000"}
    with listener(lambda connection: None) as place:
        done = work(tmp_path / "run", http(f"http://{place}", **bound), (30_000, 0.3))
        without = work(tmp_path / "without", {}, (30_000, 0.3))
    assert done.ledger()["written"] > 30_000
    assert adds_up(done.ledger())
    assert done.peak_kb - without.peak_kb < 20_000


def test_a_killed_process_leaves_a_count_too(tmp_path: Path) -> None:
    """What was under way or waited when it last told is in its ledger, so that the sum holds there as well."""
    with listener(lambda connection: None) as place:
        done = work(tmp_path / "run", http(f"http://{place}"), (300, 1.3), killed=True)
    export = done.ledger()["export"]
    assert export["waiting"] > 0
    assert done.ledger()["written"] == export["sent"] + export["dropped"] + export["waiting"] == len(done.spans())


def test_without_grpcio_the_file_goes_on(tmp_path: Path) -> None:
    """One warning that names the extra, every span counted, nothing raised."""
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text("import sys\nsys.modules['grpc'] = None\n")
    import invoke  # noqa: PLC0415

    path = f"{hide}:{invoke.environment()['PYTHONPATH']}"
    done = work(tmp_path / "run", http(f"http://{unused()}", GRPC, PYTHONPATH=path), (20, 0.3), (20, 0.1))
    assert adds_up(done.ledger())
    assert done.ledger()["export"]["sent"] == 0
    assert done.told.count("hicachectl[otlp]") == 1


# -- off -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_SAMPLER": "always_off"},
        {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    ],
    ids=lambda env: next(iter(env), "no endpoint"),
)
def test_where_nothing_is_to_be_sent_nothing_is_imported(env: dict[str, str], tmp_path: Path) -> None:
    """No endpoint, or OpenTelemetry switched off: the file is written, the exporter's modules stay out."""
    done = work(tmp_path / "run", {**http(f"http://{unused()}"), **env} if env else {}, (5, 0.1))
    assert done.modules == []
    assert done.ledger()["export"] is None
    assert len(done.spans()) > 5


def test_the_network_is_imported_with_the_first_batch_only(tmp_path: Path) -> None:
    """A process that records nothing loads the queue and no way to send."""
    done = work(tmp_path / "run", http(f"http://{unused()}", PROTOBUF), (0, 0.1), scheduler=False)
    assert done.modules == ["tracers.otlp"]


# -- settings ------------------------------------------------------------------------------------------------------------
def asked(**env: str) -> Collector | None:
    """The collector that OTEL_EXPORTER_OTLP_<name> variables name."""
    told = {f"OTEL_{name}" if name.startswith("TRACES_SAMPLER") else f"OTEL_EXPORTER_OTLP_{name}": value for name, value in env.items()}
    return settings.read({"HICACHECTL_TRACE": "/run", **told}).collector


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"ENDPOINT": "http://h:4318"}, Collector("http://h:4318/v1/traces")),
        ({"ENDPOINT": "http://h:4318/"}, Collector("http://h:4318/v1/traces")),
        ({"ENDPOINT": "http://h/x", "PROTOCOL": "nonsense"}, Collector("http://h/x/v1/traces", misread=("OTEL_EXPORTER_OTLP_PROTOCOL=nonsense",))),
        ({"ENDPOINT": "http://h", "COMPRESSION": "snappy"}, Collector("http://h/v1/traces", misread=("OTEL_EXPORTER_OTLP_COMPRESSION=snappy",))),
        ({"TRACES_ENDPOINT": "http://h", "TRACES_TIMEOUT": "soon"}, Collector("http://h", misread=("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=soon",))),
        ({"ENDPOINT": "http://h", "COMPRESSION": "none"}, Collector("http://h/v1/traces")),
        ({"TRACES_ENDPOINT": "http://h/x", "PROTOCOL": JSON}, Collector("http://h/x", JSON)),
        ({"ENDPOINT": "http://h:4317", "PROTOCOL": "grpc"}, Collector("http://h:4317", GRPC)),
        ({"ENDPOINT": "https://h:4317", "PROTOCOL": "grpc"}, Collector("https://h:4317", GRPC, secure=True)),
        ({"ENDPOINT": "h:4317", "PROTOCOL": "grpc", "INSECURE": "true"}, Collector("h:4317", GRPC)),
        ({"ENDPOINT": "h:4317", "PROTOCOL": "grpc"}, Collector("h:4317", GRPC, secure=True)),
        ({"ENDPOINT": "http://h", "TIMEOUT": "2500"}, Collector("http://h/v1/traces", timeout_s=2.5)),
        ({"ENDPOINT": "http://h", "TIMEOUT": "5"}, Collector("http://h/v1/traces", timeout_s=5)),
        ({"ENDPOINT": "http://h", "TIMEOUT": "-1"}, Collector("http://h/v1/traces", misread=("OTEL_EXPORTER_OTLP_TIMEOUT=-1",))),
        ({"ENDPOINT": "http://h", "TRACES_SAMPLER": "jaeger_remote"}, Collector("http://h/v1/traces", unheeded="jaeger_remote")),
        ({"ENDPOINT": "http://h", "TRACES_SAMPLER": "traceidratio"}, Collector("http://h/v1/traces")),
        ({"ENDPOINT": "http://h", "TRACES_SAMPLER": "traceidratio", "TRACES_SAMPLER_ARG": "0.25"}, Collector("http://h/v1/traces", share=0.25)),
        ({"ENDPOINT": "http://h", "TRACES_SAMPLER": "parentbased_traceidratio", "TRACES_SAMPLER_ARG": "0"}, Collector("http://h/v1/traces", share=0.0)),
        (
            {"ENDPOINT": "http://h", "TRACES_SAMPLER": "traceidratio", "TRACES_SAMPLER_ARG": "2"},
            Collector("http://h/v1/traces", unheeded="traceidratio with 2"),
        ),
        ({"ENDPOINT": "http://h", "TRACES_SAMPLER": "parentbased_always_on"}, Collector("http://h/v1/traces")),
    ],
)  # fmt: skip
def test_variables_mean_what_opentelemetry_says(env: dict[str, str], expected: Collector) -> None:
    """Endpoint, protocol, security, time-out and sampler as the exporter's specification has them."""
    assert asked(**env) == expected


def test_a_sampler_is_of_what_is_sent(tmp_path: Path) -> None:
    """Requests are sent whole or not at all, as OpenTelemetry's own sampler decides; the process's spans always; the file has all, and the count adds up."""
    sampling = pytest.importorskip("opentelemetry.sdk.trace.sampling")
    sampler = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.4"}
    with receiver() as there:
        done = work(tmp_path / "run", http(there.url, **sampler), (700, 0.5))
        arrived = by_id(there.documents())
    written, chooses = done.spans(), sampling.TraceIdRatioBased(0.4)
    kept = {
        id_
        for id_, span in written.items()
        if span["name"] == v.LEDGER or chooses.should_sample(None, int(span["traceId"], 16), "").decision.is_sampled()
    }
    assert arrived.keys() == kept
    assert all(arrived[id_] == written[id_] for id_ in kept)
    requests = {span["traceId"] for span in written.values() if span["name"] != v.LEDGER}
    sent = {span["traceId"] for span in arrived.values() if span["name"] != v.LEDGER}
    assert set() < sent < requests
    export = done.ledger()["export"]
    assert (export["sent"], export["unsampled"]) == (len(kept), len(written) - len(kept))
    assert export["dropped"] == export["waiting"] == 0


def test_a_reader_of_sampled_spans_is_told(tmp_path: Path) -> None:
    """What the collector holds says itself that it is not all, and why."""
    sampler = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}
    with receiver() as there:
        done = work(tmp_path / "run", http(there.url, **sampler), (50, 1.5))
        (tmp_path / "back.jsonl").write_bytes(b"".join(there.unpacked()))
    assert {span["name"] for span in by_id(there.documents()).values()} == {v.LEDGER}
    told = "\n".join(store.read([tmp_path / "back.jsonl"]).incomplete)
    assert "its sampler keeps 50 from the collector" in told
    assert "sampler" not in "\n".join(store.read([done.folder]).incomplete)


def test_a_url_is_shown_without_what_is_secret() -> None:
    """Names, passwords and queries stay out of logs."""
    assert Collector("http://me:word@h:4318/v1/traces?key=word").shown == "http://h:4318/v1/traces"
    assert Collector("me:word@h:4317").shown == "h:4317"


# -- parts ---------------------------------------------------------------------------------------------------------------
def a_line(spans: list[dict[str, Any]]) -> bytes:
    """One export request as the writer writes it."""
    group = {"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "s", "version": "1"}, "spans": spans}]}
    return json.dumps({"resourceSpans": [group]}, separators=(",", ":")).encode() + b"\n"


def test_lines_become_one_request_and_large_ones_several() -> None:
    """No span is lost or repeated, and no piece is larger than receivers take, unless it is a single span."""
    spans = [{"spanId": f"{number:016x}", "name": "x" * size} for number, size in enumerate([10, 2 << 20, 10, 2 << 20, 4 << 20, 10])]
    lines = [a_line(spans[:1]), a_line(spans[1:])]
    whole = otlp.joined(lines)
    assert by_id([json.loads(whole)]) == by_id([json.loads(line) for line in lines])
    pieces = list(otlp.pieces((whole, len(spans))))
    assert by_id([json.loads(piece) for piece, _ in pieces]) == by_id([json.loads(whole)])
    assert [count for _, count in pieces] == [1, 2, 1, 1, 1]
    assert all(len(piece) < otlp.MOST_BYTES + 1000 or count == 1 for piece, count in pieces)


def test_protobuf_by_hand_is_what_protobuf_writes() -> None:
    """Bytes worked out from the wire format's rules: tags, varints, fixed numbers, lengths."""
    span = {
        "traceId": "00" * 15 + "ff",
        "spanId": "00" * 7 + "01",
        "name": "n",
        "kind": 1,
        "startTimeUnixNano": "258",
        "attributes": [{"key": "k", "value": {"intValue": "-1"}}, {"key": "b", "value": {"boolValue": True}}],
        "status": {"code": 2},
    }
    minus_one = b"\xff" * 9 + b"\x01"
    body = (
        b"\x0a\x10" + b"\x00" * 15 + b"\xff" + b"\x12\x08" + b"\x00" * 7 + b"\x01" + b"\x2a\x01n" + b"\x30\x01" + b"\x39\x02\x01" + b"\x00" * 6
        + b"\x4a\x10" + b"\x0a\x01k" + b"\x12\x0b" + b"\x18" + minus_one
        + b"\x4a\x07" + b"\x0a\x01b" + b"\x12\x02" + b"\x10\x01"
        + b"\x7a\x02\x18\x02"
    )  # fmt: skip
    scope = b"\x0a\x06\x0a\x01s\x12\x011"
    scope_spans = scope + b"\x12" + bytes([len(body)]) + body
    group = b"\x0a\x00" + b"\x12" + bytes([len(scope_spans)]) + scope_spans
    assert wire.request(a_line([span])) == b"\x0a" + bytes([len(group)]) + group


def test_protobuf_reads_what_is_written_by_hand() -> None:
    """Every kind of value, links, text beyond ASCII, and numbers at their bounds, against protobuf's own reader of JSON."""
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    from hicachectl.export.otlp import _as_protobuf  # noqa: PLC0415

    values: list[dict[str, Any]] = [{"intValue": str(number)} for number in (0, 1, 127, 128, -1, (1 << 63) - 1, -(1 << 63))]
    values += [{"doubleValue": number} for number in (0.5, -1e300, "NaN", "Infinity")] + [{"stringValue": text} for text in ("", "a", "é€😀" * 50)]
    values += [{"boolValue": False}, {"boolValue": True}, {"arrayValue": {"values": [{"intValue": "5"}, {"stringValue": "x"}]}}, {"arrayValue": {"values": []}}]
    pairs = [{"key": f"k{number}", "value": value} for number, value in enumerate(values)]
    ids = {"traceId": "0123456789abcdef" * 2, "spanId": "fedcba9876543210"}
    span = {**ids, "parentSpanId": "00000000000000aa", "name": "n", "kind": 1, "startTimeUnixNano": str((1 << 64) - 1), "endTimeUnixNano": "7",
            "attributes": pairs, "links": [ids, ids], "status": {"code": 2, "message": "m"}}  # fmt: skip
    line = a_line([span, {**ids, "name": "bare"}])
    expected = json_format.ParseDict(_as_protobuf(line), trace_service.ExportTraceServiceRequest())
    assert str(trace_service.ExportTraceServiceRequest.FromString(wire.request(line))) == str(expected)


@pytest.mark.parametrize("answer", [b"\x0a", b"\xff" * 20, b"\x07", b"\x0a\x05\x08"])
def test_an_answer_that_is_no_message_is_told(answer: bytes) -> None:
    """Cut lengths, endless numbers and unknown types do not pass for an answer."""
    with pytest.raises(wire.MalformedError):
        wire.rejected(answer)


def test_a_forked_child_sends_its_own_spans_and_not_its_parents(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What waited in the parent is forgotten in the child, counts begin anew, and a new thread sends."""
    arrived: list[bytes] = []

    class Keeps(otlp.Sender):
        def send(self, line: bytes) -> int:
            arrived.append(line)
            return 0

    monkeypatch.setattr(otlp, "sender", lambda asked: Keeps())
    exporter = otlp.Exporter(Collector("http://h", unheeded="traceidratio", misread=("OTEL_EXPORTER_OTLP_TIMEOUT=soon",)))
    exporter.offer(b"parent's", 3)
    exporter.renew()
    assert exporter.counts.waiting == 0
    with caplog.at_level(logging.WARNING):
        exporter.start()
        exporter.offer(b"child's", 2)
        exporter.settle()
    assert arrived == [b"child's"]
    assert exporter.counts.sent == 2
    assert "traceidratio" in caplog.text
    assert "OTEL_EXPORTER_OTLP_TIMEOUT=soon means nothing" in caplog.text
    exporter.close()


def test_a_batch_that_nobody_ever_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep all that comes after it from being sent."""
    asks: list[bytes] = []

    class Hates(otlp.Sender):
        def send(self, line: bytes) -> int:
            asks.append(line)
            if line == b"poison":
                raise otlp.Retry("HTTP 503")
            return 0

    monkeypatch.setattr(otlp, "sender", lambda asked: Hates())
    monkeypatch.setattr(otlp, "BACKOFF_S", 0.01)
    monkeypatch.setattr(otlp, "GIVE_UP_S", 1.0)
    exporter = otlp.Exporter(Collector("http://h"))
    exporter.start()
    exporter.offer(b"poison", 3)
    until = time.monotonic() + 10
    while exporter.counts.dropped < 3 and time.monotonic() < until:
        time.sleep(0.01)
    exporter.offer(b"good", 2)
    exporter.settle()
    exporter.close()
    assert asks.count(b"poison") > 2
    assert (exporter.counts.sent, exporter.counts.dropped) == (2, 3)
