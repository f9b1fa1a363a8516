"""OTLP: lines of JSON as they are, or one request after the other to a collector over HTTP or gRPC."""

import base64
import binascii
import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from hicachectl.exits import BadInputError, UnreachableError, UsageError, one_line
from hicachectl.patience import at_most

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 10.0
LONGEST_ANSWER_S = 60.0
LARGEST_ANSWER = 64 << 10
"""What is looked at of an answer: a collector says how many spans it has refused, and why."""
TRIES = 5
_RETRIED = frozenset({429, 502, 503, 504})
"""HTTP answers after which the OTLP specification asks to try again (opentelemetry.io, OTLP/HTTP, retryable response codes)."""
PATH = "/v1/traces"
_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_RETRIED_GRPC = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"})

Send = Callable[[bytes], int]
"""Sends one export request as JSON; the number of spans that the collector refused of it."""


def is_collector(target: str) -> bool:
    """Whether TARGET is the URL of a collector rather than a file."""
    return "://" in target


@contextmanager
def collector(target: str) -> Iterator[Send]:
    """A way to send to the collector at TARGET: http(s)://HOST:4318, with or without a path, or grpc(s)://HOST:4317."""
    scheme = target.partition("://")[0].lower()
    if scheme in ("http", "https"):
        import httpx  # noqa: PLC0415 - slow to import, and of no use to a file

        with httpx.Client(timeout=TIMEOUT_S, headers=headers()) as client:
            yield lambda body: _post(client, _endpoint(target), body)
    elif scheme in ("grpc", "grpcs"):
        with _grpc(target) as send:
            yield send
    else:
        raise UsageError(f"--target {target}: expected http://HOST:4318, grpc://HOST:4317, or a file")


def headers() -> dict[str, str]:
    """What a collector may ask for beside the spans, such as a key: OpenTelemetry's variable for it (OTEL_EXPORTER_OTLP_HEADERS)."""
    told = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or os.environ.get("OTEL_EXPORTER_OTLP_HEADERS") or ""
    pairs = (part.partition("=") for part in told.split(","))
    return {unquote(key.strip()): unquote(value.strip()) for key, found, value in pairs if found and key.strip()}


def _endpoint(target: str) -> str:
    try:
        parts = urlsplit(target)
        named = parts.hostname and (parts.port or True)
    except ValueError:
        named = None
    if not named:
        raise UsageError(f"--target {target}: expected http://HOST:4318")
    return target if parts.path.strip("/") else target.rstrip("/") + PATH


def _post(client: "httpx.Client", url: str, body: bytes) -> int:
    import httpx  # noqa: PLC0415

    for attempt in range(TRIES):
        try:
            with (
                at_most(LONGEST_ANSWER_S, client, lambda: f"{url} does not stop answering: this is no collector"),
                client.stream("POST", url, content=body, headers={"content-type": "application/json"}) as answer,
            ):
                said = next(answer.iter_bytes(LARGEST_ANSWER), b"")
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise UnreachableError(
                f"cannot reach a collector at {url}: {one_line(str(error)) or type(error).__name__}"
            ) from error
        if answer.status_code not in _RETRIED or attempt == TRIES - 1:
            break
        time.sleep(_pause(answer, attempt))
    if not answer.is_success:
        why = one_line(said[:200].decode(errors="replace")) or "nothing more"
        raise UnreachableError(f"the collector at {url} refuses the spans: HTTP {answer.status_code}, {why}")
    if answer.headers.get("content-type", "").strip().lower().startswith(("text/html", "application/xhtml+xml")):
        raise UnreachableError(f"{url} answers with a web page: this is no collector; expected http://HOST:4318")
    return _refused(said)


def _pause(answer: "httpx.Response", attempt: int) -> float:
    told = answer.headers.get("retry-after", "")
    return min(float(told), TIMEOUT_S) if told.isdecimal() else float(0.2 * 2**attempt)


def _refused(content: bytes) -> int:
    """Spans refused according to the answer (ExportTraceServiceResponse.partial_success); an answer in protobuf tells none."""
    try:
        told = msgspec.json.decode(content)["partialSuccess"]["rejectedSpans"]
        return int(told)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, UnicodeError, RecursionError):
        return 0


@contextmanager
def _grpc(target: str) -> Iterator[Send]:
    """Sends over gRPC; it needs the packages of the extra `otlp`."""
    grpc, json_format, pb = _packages()
    try:
        parts = urlsplit(target)
    except ValueError:
        parts = None
    if parts is None or not parts.netloc:
        raise UsageError(f"--target {target}: expected grpc://HOST:4317")
    secure = parts.scheme == "grpcs"
    channel = (
        grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials())
        if secure
        else grpc.insecure_channel(parts.netloc)
    )
    call = channel.unary_unary(
        _EXPORT,
        request_serializer=pb.ExportTraceServiceRequest.SerializeToString,
        response_deserializer=pb.ExportTraceServiceResponse.FromString,
    )

    def send(body: bytes) -> int:
        request = json_format.ParseDict(_as_protobuf(body), pb.ExportTraceServiceRequest(), ignore_unknown_fields=True)
        return _call(grpc, call, request, target)

    with channel:
        yield send


def _packages() -> tuple[Any, Any, Any]:
    names = ("grpc", "google.protobuf.json_format", "opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    try:
        grpc, json_format, pb = (importlib.import_module(name) for name in names)
    except ImportError as error:
        raise UnreachableError(
            f"grpc:// needs a package that is not here ({error.name}): `pip install 'hicachectl[otlp]'`, or use http://HOST:4318"
        ) from error
    return grpc, json_format, pb


def _call(grpc: Any, call: Any, request: Any, target: str) -> int:
    for attempt in range(TRIES):
        try:
            answer = call(request, timeout=TIMEOUT_S, metadata=[(key.lower(), value) for key, value in headers().items()])
        except grpc.RpcError as error:
            if error.code().name in _RETRIED_GRPC and attempt < TRIES - 1:
                time.sleep(0.2 * 2**attempt)
                continue
            raise UnreachableError(
                f"the collector at {target} does not take the spans: {error.code().name}, {one_line(error.details() or '')}"
            ) from error
        return int(answer.partial_success.rejected_spans)
    raise AssertionError("unreachable")  # the last try returns or raises


def _as_protobuf(body: bytes) -> Any:
    """An OTLP/JSON request as protobuf's own JSON mapping has it: ids in base64 instead of hex."""
    document = msgspec.json.decode(body)
    for span in _spans(document):
        for holder in (span, *span.get("links", ())):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in holder:
                    holder[key] = _base64(holder[key])
    return document


def _spans(document: Any) -> Iterable[dict[str, Any]]:
    for group in document.get("resourceSpans", ()):
        for scope in group.get("scopeSpans", ()):
            yield from scope.get("spans", ())


def _base64(digits: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(digits)).decode()
    except (ValueError, binascii.Error) as error:
        raise BadInputError(f"'{one_line(digits)[:40]}' is no id of a span: expected hex digits") from error
