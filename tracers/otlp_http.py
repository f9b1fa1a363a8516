"""OTLP over HTTP, by the standard library; imported by the thread that sends, with its first batch."""

import gzip
import json
import os
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from tracers import wire
from tracers.otlp import Refused, Retry, Sender, Unable
from tracers.settings import JSON, Collector

MOST_ANSWER = 64 << 10
"""Bytes that are read of an answer: a collector's is short."""


class Http(Sender):
    """OTLP/HTTP over one connection that is kept open (opentelemetry.io, OTLP/HTTP)."""

    RETRIED = frozenset({429, 502, 503, 504})
    """Answers after which the specification asks to try again."""

    def __init__(self, asked: Collector) -> None:
        parts = urlsplit(asked.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Unable("the endpoint is no http:// or https:// URL")
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._json = asked.protocol == JSON
        self._packed = asked.gzip
        self._headers = {"Content-Type": "application/json" if self._json else "application/x-protobuf", **dict(asked.headers)}
        if asked.gzip:
            self._headers["Content-Encoding"] = "gzip"
        self._connection = self._made(asked, parts.scheme == "https", parts.hostname, parts.port)

    def _made(self, asked: Collector, secure: bool, host: str, port: int | None) -> Any:
        if not secure:
            return HTTPConnection(host, port, timeout=asked.timeout_s)
        try:
            context = ssl.create_default_context(cafile=asked.certificate)
        except OSError as fault:
            raise Unable(f"the certificate cannot be read ({fault})") from fault
        return HTTPSConnection(host, port, timeout=asked.timeout_s, context=context)

    def send(self, line: bytes) -> int:
        """Send one request; see Sender."""
        body = line if self._json else wire.request(line)
        if self._packed:
            body = gzip.compress(body, 1)
        status, headers, answer = self._asked_twice(body)
        if status in self.RETRIED:
            after = headers.get("retry-after", "")
            raise Retry(f"HTTP {status}", float(after) if after.isdecimal() else 0.0)
        if not 200 <= status < 300:
            raise Refused(f"HTTP {status}")
        return self._rejected(headers.get("content-type", ""), answer)

    def _asked_twice(self, body: bytes) -> tuple[int, Any, bytes]:
        """One request; a kept connection that the other side has closed meanwhile is opened anew, once."""
        kept = self._connection.sock is not None
        try:
            return self._ask(body)
        except (OSError, HTTPException) as fault:
            self._connection.close()
            if not kept or isinstance(fault, TimeoutError):
                raise Retry(_short(fault)) from fault
        try:
            return self._ask(body)
        except (OSError, HTTPException) as fault:
            self._connection.close()
            raise Retry(_short(fault)) from fault

    def _ask(self, body: bytes) -> tuple[int, Any, bytes]:
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        told = answer.read(MOST_ANSWER)
        if not answer.isclosed():  # longer than any answer of a collector
            self._connection.close()
        return answer.status, answer.headers, told

    def _rejected(self, kind: str, answer: bytes) -> int:
        """What the answer says of refused spans or data points; Refused where it is not a collector's."""
        if not answer:
            return 0
        try:
            if "protobuf" in kind:
                return wire.rejected(answer)
            if "json" in kind:
                told = json.loads(answer).get("partialSuccess") or {}
                return int(told.get("rejectedSpans") or told.get("rejectedDataPoints") or 0)
        except (ValueError, TypeError, AttributeError):
            pass
        raise Refused("what answers there is no collector")

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()


def _short(fault: Exception) -> str:
    """A fault without what differs from time to time."""
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    if isinstance(fault, OSError) and fault.errno:
        return os.strerror(fault.errno)
    return type(fault).__name__ + (f": {fault}" if isinstance(fault, OSError) else "")
