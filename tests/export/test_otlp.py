"""Sending to a collector."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import answering
import pytest
from recordings import Recording

from hicachectl.exits import BadInputError, UnreachableError, UsageError
from hicachectl.export import otlp, sending
from tracers import vocabulary as v


class Receiver:
    """A collector's HTTP side that keeps what arrives and answers as it is told."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answers: list[tuple[int, bytes]] = []
        self.kind = "application/json"
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, text = receiver.answers.pop(0) if receiver.answers else (200, b"{}")
                if status == 200:
                    receiver.bodies.append(json.loads(body))
                    receiver.paths.append(self.path)
                self.send_response(status)
                self.send_header("content-type", receiver.kind)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *told: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver that listens."""
    monkeypatch.setenv("NO_PROXY", "*")
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()


def run(folder: Path, spans: int = 5, batch: int = 2) -> Path:
    """A recording with so many spans."""
    made = Recording()
    engine = made.engine()
    for at in range(spans):
        engine.span(v.STORE_PUT, at, at + 1, rid=f"r{at}", attributes={v.BAD_OBJECTS: [at]})
    return made.write(folder, batch=batch)


def _names(body: dict[str, Any]) -> list[str]:
    return [span["name"] for group in body["resourceSpans"] for scope in group["scopeSpans"] for span in scope["spans"]]


def test_every_line_arrives_as_it_was_written(tmp_path: Path, receiver: Receiver) -> None:
    """A request a line, unchanged, at the path that OTLP fixes; the ledger comes last."""
    folder = run(tmp_path / "run")
    assert sending.to_collector([folder], receiver.url) == (5, 0)
    written = [json.loads(line) for line in next(folder.glob("spans-*")).read_text().splitlines()]
    assert receiver.bodies[:-1] == written
    assert _names(receiver.bodies[-1]) == [v.LEDGER]
    assert set(receiver.paths) == {"/v1/traces"}


def test_a_path_of_its_own_is_kept(tmp_path: Path, receiver: Receiver) -> None:
    """A collector behind a gateway has another path."""
    sending.to_collector([run(tmp_path / "run", 1)], receiver.url + "/otel/v1/traces")
    assert set(receiver.paths) == {"/otel/v1/traces"}


def test_a_busy_collector_is_asked_again(tmp_path: Path, receiver: Receiver) -> None:
    """Answers that ask for patience get it; nothing is sent twice."""
    receiver.answers = [(503, b""), (429, b"")]
    assert sending.to_collector([run(tmp_path / "run", 1)], receiver.url) == (1, 0)
    assert [_names(body) for body in receiver.bodies] == [[v.STORE_PUT], [v.LEDGER]]


def test_refused_spans_are_counted(tmp_path: Path, receiver: Receiver) -> None:
    """A collector may take a request and refuse some of its spans."""
    receiver.answers = [(200, b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "x"}}'), (200, b"\x0a\x00")]
    assert sending.to_collector([run(tmp_path / "run", 4)], receiver.url) == (4, 2)


def test_a_collector_that_refuses_or_is_not_there_is_said(tmp_path: Path, receiver: Receiver) -> None:
    """One sentence with the address and the answer."""
    folder = run(tmp_path / "run", 1)
    receiver.answers = [(400, b"bad\x1b[31m request")]
    with pytest.raises(UnreachableError, match=r"HTTP 400, bad\\x1b\[31m request"):
        sending.to_collector([folder], receiver.url)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        sending.to_collector([folder], "http://127.0.0.1:1")


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "Text/HTML", "application/xhtml+xml"])
def test_a_web_page_is_no_collectors_answer(kind: str, tmp_path: Path, receiver: Receiver) -> None:
    """A page that takes any request, as on the port of a dashboard, has taken no spans; its kind may be written in any case."""
    receiver.kind = kind
    with pytest.raises(UnreachableError, match="web page: this is no collector"):
        sending.to_collector([run(tmp_path / "run", 1)], receiver.url)


@pytest.mark.parametrize("target", ["ftp://host/x", "http://", "http://host:port", "grpc://"])
def test_an_address_that_is_none_is_a_matter_of_usage(tmp_path: Path, target: str) -> None:
    """Said before anything is sent."""
    with pytest.raises((UsageError, UnreachableError)) as caught:
        sending.to_collector([run(tmp_path / "run", 1)], target)
    assert isinstance(caught.value, UsageError) or "hicachectl[otlp]" in str(caught.value)


def test_ids_become_base64_for_protobuf() -> None:
    """Protobuf's JSON mapping has bytes in base64 where OTLP/JSON has hex; links as well."""
    made = Recording()
    engine = made.engine()
    first = engine.span(v.STORE_PUT, 1, span_id="00000000000000ff", trace_id="0" * 30 + "ff")
    engine.span(v.STORE_GET, 2, parent=first, links=[first])
    _, second = otlp._as_protobuf(engine.line().encode())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert second["parentSpanId"] == "AAAAAAAAAP8="
    assert second["links"][0] == {"traceId": "AAAAAAAAAAAAAAAAAAAA/w==", "spanId": "AAAAAAAAAP8="}


def test_grpc_delivers_what_was_written(tmp_path: Path) -> None:
    """With the extra installed, a gRPC receiver gets the same spans."""
    grpc = pytest.importorskip("grpc")
    pb = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    arrived: list[Any] = []

    def export(request: Any, context: Any) -> Any:
        arrived.append(request)
        if len(arrived) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return pb.ExportTraceServiceResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        export,
        request_deserializer=pb.ExportTraceServiceRequest.FromString,
        response_serializer=pb.ExportTraceServiceResponse.SerializeToString,
    )
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert sending.to_collector([run(tmp_path / "run", 3, batch=3)], f"grpc://127.0.0.1:{port}") == (3, 0)
    finally:
        server.stop(None)
    group = arrived[1].resource_spans[0]
    spans = group.scope_spans[0].spans
    assert [span.span_id.hex() for span in spans] == [f"{n:016x}" for n in (1, 2, 3)]
    assert {pair.key: pair.value.int_value for pair in group.resource.attributes}[v.R_PID] == 101
    values = {pair.key: pair.value for pair in spans[2].attributes}
    assert [one.int_value for one in values[v.BAD_OBJECTS].array_value.values] == [2]
    assert spans[2].end_time_unix_nano - spans[2].start_time_unix_nano == 1_000_000


def test_an_answer_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that answers for ever costs no memory, and one that drips no more than the bound, be it in its headers."""
    monkeypatch.setattr(otlp, "LONGEST_ANSWER_S", 0.5)
    with answering.raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 65536, forever=True) as url, otlp.collector(url) as send:
        assert send(b"{}") == 0
    for head in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"):
        with answering.slow(head, b"X: y\r\n", 0.1) as url, otlp.collector(url) as send, pytest.raises(BadInputError, match="does not stop"):
            send(b"{}")
