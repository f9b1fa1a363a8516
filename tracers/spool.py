"""The writer thread: encodes records as OTLP JSON Lines, one file a process, whole lines."""

import contextlib
import hashlib
import json
import math
import os
import socket
import threading
import time
from importlib import metadata
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import Any

from tracers import ledger as ledgers
from tracers import vocabulary as v
from tracers.ledger import Ledger
from tracers.record import Late, Queue, Record
from tracers.settings import Settings, stand_in

BATCH = 512
LINGER = 0.02
"""Seconds that the writer waits for more once a record is there: what a sudden death can cost."""
LEDGER_EVERY = 1.0
PACKAGES = {"sglang": ("sglang",), "mooncake": ("mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda"), "hicachectl": ("hicachectl",)}


def version(*names: str) -> str:
    """Version of the first of these distributions that is installed, else an empty string."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def attribute(key: str, value: Any) -> str:
    """One attribute as OTLP/JSON (opentelemetry-proto `common.proto`, JSON mapping: 64-bit integers as strings)."""
    return f'{{"key":{quoted(key)},"value":{_any_value(value)}}}'


def _any_value(value: Any) -> str:
    if isinstance(value, bool):
        return f'{{"boolValue":{"true" if value else "false"}}}'
    if isinstance(value, int):
        return f'{{"intValue":"{value}"}}'
    if isinstance(value, float):
        return f'{{"doubleValue":{json.dumps(value)}}}' if math.isfinite(value) else f'{{"stringValue":"{value}"}}'
    if isinstance(value, (list, tuple)):
        return f'{{"arrayValue":{{"values":[{",".join(map(_any_value, value))}]}}}}'
    return f'{{"stringValue":{quoted(str(value))}}}'


class Spool:
    """One process's part of a recording."""

    def __init__(self, settings: Settings, queue: Queue, ledger: Ledger) -> None:
        self.settings = settings
        self.queue = queue
        self.ledger = ledger
        self.folder = settings.folder or Path()
        self.ranks: dict[str, int | None] = {}
        self.ended_ms: int | None = None
        self.versions = {name: version(*packages) for name, packages in PACKAGES.items()}
        self._name()

    def _name(self) -> None:
        """Take the identity of this process."""
        self.host = socket.gethostname()
        self.pid = os.getpid()
        self.start_ms = time.time_ns() // 1_000_000
        self.engine = f"{self.host}:{self.pid}:{self.start_ms}"
        self.stem = f"{self.host.replace('/', '_')}-{self.pid}-{self.start_ms}"
        self._file: Any = None
        self._size = 0
        self._traces: dict[str, str] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._flush_lock = threading.Lock()
        self._last_ledger = 0.0
        self._ledger_state: Any = None

    # -- life ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the writer thread; it makes no file before there is something to write."""
        self._thread = threading.Thread(target=self._run, name="hicachectl-writer", daemon=True)
        self._thread.start()

    def reborn(self, queue: Queue) -> None:
        """In a forked child: a file, a ledger and a writer of its own; the parent's file is left alone."""
        self.queue = queue
        self.ledger.written = self.ledger.lost = 0
        self._name()
        self.start()

    def say_end(self, now_ms: int) -> None:
        """In a parent that ends its schedulers: a ledger that says so, for they themselves are killed."""
        self.ended_ms = now_ms
        self.flush(final=True)

    def close(self) -> None:
        """Write what waits and the last ledger; at most a second."""
        self._stop.set()
        self.queue.wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)
        self.ledger.closed = True
        if not self.ledger.scheduler and self.ended_ms is None:
            # A parent that ends in order has ended its schedulers, which may have been killed.
            self.ended_ms = time.time_ns() // 1_000_000
        self.flush(final=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.queue.wake.wait(timeout=LEDGER_EVERY)
            if self.queue.wake.is_set():
                self._stop.wait(LINGER)
                self.queue.wake.clear()
            try:
                self.flush()
            except Exception as fault:  # noqa: BLE001 - the writer must outlive any disk
                self._fault(fault)

    def _fault(self, fault: Exception) -> None:
        with contextlib.suppress(Exception):  # raises under test only
            self.ledger.recorder.guard.fault("spool", fault)

    def flush(self, *, final: bool = False) -> None:
        """Write every record that waits, and the ledger when it has changed."""
        with self._flush_lock:
            while records := self.queue.take(BATCH):
                self._write(records)
            now = time.monotonic()
            if final or now - self._last_ledger >= LEDGER_EVERY:
                self._last_ledger = now
                self._write_ledger(final=final)

    # -- files -----------------------------------------------------------------------------------------------------
    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._claim_run()
        self._file = (self.folder / f"spans-{self.stem}.jsonl").open("ab", buffering=0)
        self._size = self._file.tell()

    def _claim_run(self) -> None:
        """Create run.json unless another process has: a link appears whole or not at all."""
        run = self.folder / "run.json"
        if run.exists():
            return
        temporary = self.folder / f".run-{self.stem}.tmp"
        temporary.write_text(json.dumps({"recording_version": v.RECORDING_VERSION, "created_ms": self.start_ms}) + "\n", encoding="utf-8")
        try:
            os.link(temporary, run)
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)

    def _write(self, records: list[Record]) -> None:
        line = self.encode(records)
        try:
            if self._file is None:
                self._open()
            if self._size and self._size + len(line) > self.settings.part_bytes:
                self._rotate()
            if self._file.write(line) == len(line):
                self._size += len(line)
                self.ledger.written += len(records)
                return
            # A full disk takes a part of a line: end it, so that what comes later stays readable.
            self.ledger.lost += len(records)
            self._file.write(b"\n")
        except OSError as fault:
            self.ledger.lost += len(records)
            self._fault(fault)

    def _rotate(self) -> None:
        """Move the file aside as `.1`, older ones up; the oldest beyond the bound is deleted and counted as lost."""
        self._file.close()
        base = self.folder / f"spans-{self.stem}.jsonl"
        oldest = base.with_name(f"{base.name}.{self.settings.parts}")
        if oldest.exists():
            self.ledger.lost += sum(part.count(b'"spanId"') for part in oldest.read_bytes().splitlines())
            oldest.unlink()
        for number in range(self.settings.parts - 1, 0, -1):
            part = base.with_name(f"{base.name}.{number}")
            if part.exists():
                part.rename(base.with_name(f"{base.name}.{number + 1}"))
        base.rename(base.with_name(f"{base.name}.1"))
        self._file = base.open("ab", buffering=0)
        self._size = 0

    def _write_ledger(self, *, final: bool) -> None:
        if self._file is None and not self.ledger.scheduler and not (final and self.folder.exists() and self.ledger.landings):
            return
        facts = self.ledger.attributes()
        state = (facts[:-3], self.ledger.closed)
        document = self.ledger.document(self._identity())
        if state != self._ledger_state and (self._file is not None or self.ledger.scheduler):
            self._ledger_state = state
            now = self.queue.clock()
            thread = (threading.get_native_id(), threading.current_thread().name)
            keys, values = zip(*facts, strict=True)
            self._write([(v.LEDGER, now, now, self.queue.new_id(), 0, None, thread, keys, values, None)])
        try:
            ledgers.write(self.folder / f"ledger-{self.stem}.json", document)
        except OSError as fault:
            self._fault(fault)

    def _identity(self) -> dict[str, Any]:
        return {
            "recording_version": v.RECORDING_VERSION,
            "engine": self.engine,
            "host": self.host,
            "pid": self.pid,
            "ppid": os.getppid(),
            "start_ms": self.start_ms,
            "seen_ms": time.time_ns() // 1_000_000,
            "ended_ms": self.ended_ms,
            "versions": self.versions,
        }

    # -- encoding --------------------------------------------------------------------------------------------------
    def encode(self, records: list[Record]) -> bytes:
        """One OTLP/JSON export request with these records, as a line."""
        spans = ",".join(map(self._span, records))
        scope = f'{{"name":"{v.R_SCOPE}","version":"{self.versions["hicachectl"]}"}}'
        line = f'{{"resourceSpans":[{{"resource":{{"attributes":[{self._resource()}]}},"scopeSpans":[{{"scope":{scope},"spans":[{spans}]}}]}}]}}\n'
        return line.encode("ascii")

    def _resource(self) -> str:
        values: dict[str, Any] = {
            v.R_SERVICE: self.settings.service,
            v.R_HOST: self.host,
            v.R_PID: self.pid,
            v.R_ENGINE: self.engine,
            v.R_VERSION: v.RECORDING_VERSION,
            v.R_SGLANG: self.versions["sglang"],
            v.R_MOONCAKE: self.versions["mooncake"],
            v.R_TP_RANK: self.ranks.get("tp"),
            v.R_PP_RANK: self.ranks.get("pp"),
            v.R_STAND_IN: stand_in(),
        }
        return ",".join(attribute(key, value) for key, value in values.items() if value is not None)

    def trace_id(self, rid: str | None) -> str:
        """Trace of a request, derived from its id alone, so that all ranks and attempts meet; work for no request has its process's."""
        name = rid or self.engine
        trace = self._traces.get(name)
        if trace is None:
            if len(self._traces) > 4096:
                self._traces.clear()
            trace = self._traces[name] = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return trace

    def _span(self, record: Record) -> str:
        name, start, end, span, parent, rid, (tid, thread), keys, values, error = record
        parts = [f'{{"key":"thread.id","value":{{"intValue":"{tid}"}}}}', attribute("thread.name", thread)]
        if rid is not None:
            parts.append(attribute(v.RID, rid))
        for key, value in zip(keys, values, strict=False):
            if isinstance(value, Late):
                parts.extend(self._late(value))
            elif value is not None:
                parts.append(attribute(key, value))
        status = ""
        if error is not None:
            parts.append(attribute(v.ERROR, type(error).__name__))
            # An exception's text may quote what the request said: only rows that ask for it get it.
            if v.ERROR_TEXT in keys:
                parts.append(attribute(v.ERROR_TEXT, str(error).split("\n", 1)[0][:200]))
            status = ',"status":{"code":2}'
        above = f'"parentSpanId":"{parent:016x}",' if parent else ""
        return (
            f'{{"traceId":"{self.trace_id(rid)}","spanId":"{span:016x}",{above}"name":"{name}","kind":1,"startTimeUnixNano":"{start}",'
            f'"endTimeUnixNano":"{end}","attributes":[{",".join(parts)}]{status}}}'
        )

    def _late(self, late: Late) -> list[str]:
        try:
            return [attribute(key, value) for key, value in late.pairs() if value is not None]
        except Exception as fault:  # noqa: BLE001 - one odd batch must not cost the others
            self._fault(fault)
            return [attribute(v.DETAIL_CUT, True)]
        finally:
            self.queue.release(late)
