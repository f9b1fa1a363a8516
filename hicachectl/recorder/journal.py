"""What `trace` itself adds to a recording: spans of its own process, and its ledger."""

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hicachectl import __version__
from tracers import vocabulary as v

LARGEST_SPANS = 64 << 20
"""Bytes that the samples of one recording may take; at a kilobyte each this is most of a day in which something changes every second."""


class Journal:
    """Spans and ledger of this process, in the folder of a recording; safe to use from several threads."""

    def __init__(self, folder: Path, forward: Callable[[bytes], None] | None = None) -> None:
        self._forward = forward
        self.host = os.uname().nodename
        self.pid = os.getpid()
        self.start_ms = time.time_ns() // 1_000_000
        self.engine = f"{self.host}:{self.pid}:{self.start_ms}"
        self.written = 0
        self.dropped = 0
        self._faults: list[str] = []
        stem = f"{self.host.replace('/', '_')}-{self.pid}-{self.start_ms}"
        self._spans = folder / f"spans-{stem}.jsonl"
        self._ledger = folder / f"ledger-{stem}.json"
        self._size = 0
        self._ended = False
        self._lock = threading.Lock()
        self.save(closed=False)

    def span(self, name: str, start_ns: int, end_ns: int, attributes: Mapping[str, Any]) -> None:
        """Write one span; one that cannot be written, or is beyond the bound, is counted as dropped."""
        line = self._line(name, start_ns, end_ns, attributes)
        with self._lock:
            if self._size + len(line) > LARGEST_SPANS:
                self.dropped += 1
                return
            if self._forward is not None:
                self._forward(line)
            try:
                _append(self._spans, line)
            except OSError:
                self.dropped += 1
                return
            self._size += len(line)
            self.written += 1

    def fault(self, text: str) -> None:
        """Remember, once, what went wrong."""
        with self._lock:
            if text not in self._faults and len(self._faults) < 20:
                self._faults.append(text)

    def save(self, *, closed: bool) -> None:
        """Replace the ledger in one step, and repeat it as a span where it is the last; a folder that was taken away is not an error."""
        if closed and self.written and not self._ended:
            self._ended = True
            now = time.time_ns()
            told = {v.POINTS_INSTALLED: 0, v.WRITTEN: self.written, v.DROPPED: self.dropped, v.CLOSED: True}
            self.span(v.LEDGER, now, now, told)
        document = {
            "recording_version": v.RECORDING_VERSION,
            "engine": self.engine,
            "host": self.host,
            "pid": self.pid,
            "ppid": os.getppid(),
            "start_ms": self.start_ms,
            "seen_ms": time.time_ns() // 1_000_000,
            "ended_ms": None,
            "versions": {"python": sys.version.split()[0], "hicachectl": __version__},
            "scheduler": False,
            "points": [],
            "dropped": self.dropped,
            "written": self.written,
            "detail_dropped": 0,
            "closed": closed,
            "faults": list(self._faults),
        }
        temporary = self._ledger.with_suffix(".tmp")
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
            try:
                _append(temporary, json.dumps(document, indent=1).encode() + b"\n", os.O_EXCL)
                temporary.replace(self._ledger)
            finally:
                temporary.unlink(missing_ok=True)

    def _line(self, name: str, start_ns: int, end_ns: int, attributes: Mapping[str, Any]) -> bytes:
        thread = threading.current_thread()
        carried = {"thread.id": threading.get_native_id(), "thread.name": thread.name, **attributes}
        span = {
            "traceId": hashlib.sha256(self.engine.encode()).hexdigest()[:32],
            "spanId": os.urandom(8).hex(),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(start_ns),
            "endTimeUnixNano": str(end_ns),
            "attributes": _pairs(carried),
        }
        resource = {
            v.R_SERVICE: "hicachectl",
            v.R_HOST: self.host,
            v.R_PID: self.pid,
            v.R_ENGINE: self.engine,
            v.R_VERSION: v.RECORDING_VERSION,
        }
        scope = {"scope": {"name": v.R_SCOPE, "version": __version__}, "spans": [span]}
        group = {"resource": {"attributes": _pairs(resource)}, "scopeSpans": [scope]}
        return json.dumps({"resourceSpans": [group]}, separators=(",", ":")).encode() + b"\n"


def _append(path: Path, data: bytes, more: int = 0) -> None:
    """Put DATA at the end of PATH, all of it or, with OSError, nothing.

    The folder may be another user's, to whose engine root has attached: what that user puts in the file's place, a link or a pipe, is not written to.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | more, 0o644)
    try:
        size = os.fstat(file).st_size
        rest = memoryview(data)
        try:
            while rest:
                # A full disk may take a part of a line, and refuse the rest.
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def _pairs(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
