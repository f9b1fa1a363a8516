"""OTLP/gRPC; `grpcio` is imported when the first batch is sent, by the thread that sends it."""

import importlib
from typing import Any
from urllib.parse import urlsplit

from tracers import wire
from tracers.otlp import Refused, Retry, Sender, Unable
from tracers.settings import METRICS, TRACES, Collector

METHODS = {
    TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
RETRIED = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"})
"""Status codes after which the specification asks to try again (opentelemetry.io, OTLP/gRPC)."""


class Grpc(Sender):
    """One channel; requests and answers are bytes, so that no generated code is needed."""

    def __init__(self, asked: Collector) -> None:
        try:
            grpc = importlib.import_module("grpc")
        except ImportError as fault:
            raise Unable("OTLP over gRPC needs grpcio: pip install 'hicachectl[otlp]', or OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf") from fault
        self._error: type[Exception] = grpc.RpcError
        self._timeout = asked.timeout_s
        self._metadata = [(key.lower(), value) for key, value in asked.headers]
        self._compression = grpc.Compression.Gzip if asked.gzip else None
        self._channel = self._made(grpc, asked)
        self._call = self._channel.unary_unary(METHODS[asked.signal], request_serializer=None, response_deserializer=None)

    def _made(self, grpc: Any, asked: Collector) -> Any:
        parts = urlsplit(asked.endpoint if "://" in asked.endpoint else f"//{asked.endpoint}")
        if not parts.netloc:
            raise Unable("the endpoint names no host")
        target = parts.netloc.rpartition("@")[2]
        # Its own retries would hide what is counted here.
        options = [("grpc.enable_retries", 0), ("grpc.max_reconnect_backoff_ms", 8000)]
        if not asked.secure:
            return grpc.insecure_channel(target, options=options)
        try:
            roots = open(asked.certificate, "rb").read() if asked.certificate else None  # noqa: PTH123, SIM115
        except OSError as fault:
            raise Unable(f"the certificate cannot be read ({fault})") from fault
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots), options=options)

    def send(self, line: bytes) -> int:
        """Send one request; see Sender."""
        try:
            answer = self._call(wire.request(line), timeout=self._timeout, metadata=self._metadata, compression=self._compression)
        except self._error as fault:
            code = fault.code().name  # type: ignore[attr-defined]
            raise (Retry if code in RETRIED else Refused)(f"gRPC {code}") from fault
        try:
            return wire.rejected(answer)
        except wire.MalformedError as fault:
            raise Refused("what answers there is no collector") from fault

    def close(self) -> None:
        """Let the channel go."""
        self._channel.close()
