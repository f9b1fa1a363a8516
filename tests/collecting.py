"""Processes that record and send, and receivers that behave in every way; shared by the tests of the exporter."""

import gzip
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import invoke
import pytest

WORK = """
import json, os, signal, sys, threading, time
from tracers import encode, plugin, read, vocabulary as v
from tracers.around import wrap
from tracers.point import Point

POINT = Point("mooncake.batch_put", "mooncake", "", (), v.STORE_PUT, (v.CODE, v.OUTCOME, v.SECONDS, v.BAD_OBJECTS, v.DETAIL_CUT),
              after=lambda args, kwargs, state, result, error: (-args[0], "k\\u00e9y", args[0] / 3, [args[0], -1], args[0] % 2 == 0),
              rid=lambda args, kwargs: f"r{args[0] % 7}")
plan = json.loads(sys.argv[1])
plugin.register()
spool = read.process._bound[0]
spool.learn(encode.shapes([POINT]))
spool.ranks, spool.ledger.scheduler = {"tp": 0}, plan.get("scheduler", True)
put = wrap(POINT, lambda number: None, spool.recorder)
number = 0
for spans, pause in plan["steps"]:
    for _ in range(spans):
        put(number)
        number += 1
        if number % 500 == 0:
            time.sleep(0.01)
    time.sleep(pause)
print("peak", next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), flush=True)
print("modules", json.dumps([name for name in sys.modules if name.startswith(("tracers.otlp", "tracers.wire", "grpc"))]), flush=True)
if plan.get("killed"):
    os.kill(os.getpid(), signal.SIGKILL)
if plan.get("say_end"):
    spool.ledger.closed = True
    spool.say_end(time.time_ns() // 1_000_000)
    os._exit(0)
"""


@dataclass
class Worked:
    """A process that recorded, and has ended."""

    folder: Path
    code: int
    told: str
    """What it said on stderr."""
    peak_kb: int
    modules: list[str]
    end_s: float
    """From its last line to its end."""

    def spans(self) -> dict[str, dict[str, Any]]:
        """The spans in its file, by id."""
        return by_id([json.loads(line) for path in self.folder.glob("spans-*") for line in path.read_bytes().splitlines()])

    def ledger(self) -> dict[str, Any]:
        """Its ledger."""
        found: dict[str, Any] = json.loads(next(self.folder.glob("ledger-*.json")).read_bytes())
        return found


def work(folder: Path, env: Mapping[str, str], *steps: tuple[int, float], timeout: float = 60, **plan: Any) -> Worked:
    """Run a process that records STEPS, each so many spans and then a pause in seconds, into FOLDER, with ENV on top of a bare environment."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HICACHECTL_"))}
    path = invoke.environment()["PYTHONPATH"]
    child = subprocess.Popen(
        [sys.executable, "-c", WORK, json.dumps({"steps": steps, **plan})],
        env={**outer, "PYTHONPATH": path, "NO_PROXY": "*", "HICACHECTL_TRACE": str(folder), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killer = threading.Timer(timeout, child.kill)
    killer.start()
    assert child.stdout is not None
    assert child.stderr is not None
    lines = [child.stdout.readline().partition(" ")[2] for _ in range(2)]
    began = time.monotonic()
    told = child.stderr.read()
    code = child.wait()
    end = time.monotonic() - began
    killer.cancel()
    assert code == (-signal.SIGKILL if plan.get("killed") else 0), told
    return Worked(folder, code, told, int(lines[0]), json.loads(lines[1]), end)


def by_id(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The spans of export requests by their id, each with the attributes of its resource."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for group in document["resourceSpans"]:
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    assert span["spanId"] not in found, "a span came twice"
                    found[span["spanId"]] = {**span, "resource": group["resource"]["attributes"]}
    return found


@dataclass
class Receiver:
    """An HTTP server that keeps the requests it takes; `answers` are given first, then `answer` for ever."""

    url: str = ""
    answer: tuple[int, str, bytes] = (200, "application/json", b'{"partialSuccess":null}')
    answers: list[tuple[int, str, bytes]] = field(default_factory=list)
    delay: float = 0
    """Seconds that it takes over each answer."""
    closed: bool = False
    """It has ended: a connection that was kept open gets no answer any more."""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    metrics: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    """Bodies and headers of requests whose path ends in /v1/metrics; the rest is of spans."""

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        """Keep one request."""
        if headers["path"].endswith("/v1/metrics"):
            self.metrics.append((body, headers))
        else:
            self.bodies.append(body)
            self.headers.append(headers)

    def unpacked(self) -> list[bytes]:
        """What arrived of spans, without compression."""
        return [plain_bytes(body, told) for body, told in zip(self.bodies, self.headers, strict=False)]

    def documents(self) -> list[dict[str, Any]]:
        """What arrived of spans, as JSON."""
        return [json.loads(body) for body in self.unpacked()]

    def measured(self) -> list[Any]:
        """What arrived of metrics, in protobuf's own classes."""
        metrics_service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
        json_format = pytest.importorskip("google.protobuf.json_format")
        found = []
        for body, told in self.metrics:
            request, text = metrics_service.ExportMetricsServiceRequest(), plain_bytes(body, told)
            found.append(json_format.Parse(text, request) if "json" in told["content-type"] else request.FromString(text))
        return found


def plain_bytes(body: bytes, headers: dict[str, str]) -> bytes:
    """A body without its compression."""
    return gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body


def series(request: Any) -> dict[tuple[Any, ...], Any]:
    """(metric, rank, attribute values...) -> number, or (count, sum) of a histogram, of one export request of metrics."""
    found: dict[tuple[Any, ...], Any] = {}
    for group in request.resource_metrics:
        rank = _told(group.resource.attributes).get("hicachectl.tp.rank")
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                assert kind is not None, f"{metric.name} has no data"
                for point in getattr(metric, kind).data_points:
                    key = (metric.name, rank, *(pair.value.string_value for pair in point.attributes))
                    found[key] = (point.count, point.sum) if kind == "histogram" else point.as_int
    return found


@contextmanager
def receiver(port: int = 0, **told: Any) -> Iterator[Receiver]:
    """A receiver that listens, at PORT where one is named."""
    made = Receiver(**told)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if made.closed:
                self.close_connection = True
                return
            time.sleep(made.delay)
            status, kind, text = made.answers.pop(0) if made.answers else made.answer
            if status == 200:
                made.take(body, {key.lower(): value for key, value in self.headers.items()} | {"path": self.path})
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *told: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield made
    finally:
        made.closed = True
        server.shutdown()
        server.server_close()


@contextmanager
def listener(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """HOST:PORT of a listener that does ANSWER with each connection, and closes it at the end."""
    server = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                taken.append(connection)
                with suppress(OSError):
                    answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield "{}:{}".format(*server.getsockname())
    finally:
        # A thread in accept keeps the port open until it is woken.
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in taken:
            connection.close()


def unused() -> str:
    """HOST:PORT at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return "{}:{}".format(*server.getsockname())


# -- a real collector ----------------------------------------------------------------------------------------------------
def rotel() -> str:
    """Path of the collector in the wheel `rotel`; skips the test, with the reason, where it is not there or does not run."""
    found = importlib.util.find_spec("rotel")
    if found is None or found.origin is None:
        pytest.skip("the collector is not installed beside this Python: pip install rotel")
    agent = str(Path(found.origin).with_name("rotel-agent"))
    try:
        tried = subprocess.run([agent, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as fault:
        pytest.skip(f"{agent} does not run here: {fault}")
    if tried.returncode != 0:
        pytest.skip(f"{agent} does not run here: {tried.stderr.strip()[:200]}")
    return agent


@dataclass
class Collecting:
    """A collector that hands on to a sink all that it takes."""

    grpc: str
    http: str
    sink: Receiver
    pid: int = 0

    def spans(self, count: int, timeout: float = 20, of: Callable[[Any], bool] = bool) -> dict[str, Any]:
        """What the sink holds, in the form of `plain`, once it has COUNT spans OF that kind, or after a while."""
        until = time.monotonic() + timeout
        while True:
            found = {span.span_id.hex(): from_protobuf(span, group) for group, span in self._all()}
            if sum(map(of, found.values())) >= count or time.monotonic() > until:
                return found
            time.sleep(0.1)

    def metrics(self, enough: Callable[[dict[tuple[Any, ...], Any]], bool], timeout: float = 20) -> dict[tuple[Any, ...], Any]:
        """The latest number of each series that the sink holds, once they are ENOUGH, or after a while."""
        until = time.monotonic() + timeout
        while True:
            found = {key: value for request in self.sink.measured() for key, value in series(request).items()}
            if enough(found) or time.monotonic() > until:
                return found
            time.sleep(0.1)

    def write(self, path: Path) -> Path:
        """The sink's content as a file: protobuf's own mapping to JSON, as a collector's file exporter writes it."""
        json_format = pytest.importorskip("google.protobuf.json_format")
        lines = [json_format.MessageToJson(request, indent=None, use_integers_for_enums=True) for request in self._requests()]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def _requests(self) -> list[Any]:
        trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        return [trace_service.ExportTraceServiceRequest.FromString(body) for body in self.sink.unpacked()]

    def _all(self) -> Iterator[tuple[Any, Any]]:
        for request in self._requests():
            for group in request.resource_spans:
                for scope in group.scope_spans:
                    for span in scope.spans:
                        yield group, span


@contextmanager
def collector(folder: Path, exporter: Sequence[str] = ()) -> Iterator[Collecting]:
    """A real collector on free ports of this machine, its log in FOLDER, and a sink behind it, unless the options of its EXPORTER say otherwise."""
    agent = rotel()
    pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    grpc, http = unused(), unused()
    with receiver(answer=(200, "application/x-protobuf", b"")) as sink:
        files = ["--pid-file", str(folder / "rotel.pid"), "--log-file", str(folder / "rotel.log")]
        taken = ["--otlp-grpc-endpoint", grpc, "--otlp-http-endpoint", http]
        given = exporter or ["--exporter", "otlp", "--otlp-exporter-endpoint", sink.url, "--otlp-exporter-protocol", "http", "--otlp-exporter-compression", "none"]
        with (folder / "rotel.out").open("wb") as out:
            child = subprocess.Popen([agent, "start", *files, *taken, *given, "--batch-timeout", "100ms"], stdout=out, stderr=out)
        try:
            _wait_for(http, child)
            yield Collecting(f"http://{grpc}", f"http://{http}", sink, child.pid)
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _wait_for(place: str, child: "subprocess.Popen[bytes]") -> None:
    host, _, port = place.partition(":")
    until = time.monotonic() + 30
    while True:
        assert child.poll() is None, "the collector ended"
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            assert time.monotonic() < until, "the collector does not listen"
            time.sleep(0.1)
        else:
            return


Plain = tuple[Any, ...]
"""(trace, id, parent, name, kind, start, end, attributes, status, resource): a span, whoever wrote it."""


def plain(span: dict[str, Any]) -> Plain:
    """A span of `by_id` in a form that compares."""
    times = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    names = span["traceId"], span["spanId"], span.get("parentSpanId", ""), span["name"], span["kind"]
    return (*names, *times, _values(span["attributes"]), span.get("status", {}).get("code", 0), _values(span["resource"]))


def from_protobuf(span: Any, group: Any) -> Plain:
    """The same of a span in protobuf's own classes."""
    names = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name, span.kind
    times = span.start_time_unix_nano, span.end_time_unix_nano
    return (*names, *times, _told(span.attributes), span.status.code, _told(group.resource.attributes))


def _values(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in pairs}


def _value(told: dict[str, Any]) -> Any:
    ((kind, value),) = told.items()
    if kind == "arrayValue":
        return [_value(one) for one in value["values"]]
    return int(value) if kind == "intValue" else float(value) if kind == "doubleValue" else value


def _told(pairs: Any) -> dict[str, Any]:
    return {pair.key: _one(pair.value) for pair in pairs}


def _one(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_one(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
