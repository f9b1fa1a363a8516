"""The writer thread: takes records from the queue, has them encoded, and writes them and the ledger, one file a process."""

import contextlib
import math
import os
import socket
import threading
import time
from collections import deque
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracers import carry, encode
from tracers import ledger as ledgers
from tracers import vocabulary as v
from tracers.around import Recorder
from tracers.encode import Encoder, Shape
from tracers.ledger import Ledger
from tracers.parts import Parts
from tracers.record import Record
from tracers.settings import Settings, stand_in

if TYPE_CHECKING:
    from tracers.otlp import Exporter
    from tracers.otlp_metrics import Metrics

BATCH = 32
"""Records encoded in one go: between two the engine gets the interpreter, which otherwise it would wait 5 ms for."""
HURRY = 4096
"""Records that wait, from which on the writer does not make way: an engine that is busy in Python gives the interpreter back after 5 ms only."""
LINE_CHARACTERS = 1 << 20
"""Length from which a line is ended: a few spans of long prompts may be as long as ten thousand others."""
LINGER = 0.4
"""Seconds that the writer waits for more, at most, once a record is there: what a sudden death can cost, and how seldom a busy engine meets the writer."""
PAUSE = 0.05
"""Seconds without a record or a step after which the engine is at rest, and the writer waits no longer."""
PLENTY = 1024
"""Records that are worth a meeting at any time."""
LEDGER_EVERY = 1.0
NEWS_EVERY = 0.1
"""Seconds after which a target that has landed is told: a process may be killed right after its first request."""
LEDGER_SPAN_EVERY = 3.0
"""Seconds after which a process that sends to a collector repeats its ledger as a span: there nothing else says that it is alive."""
PATIENCE = 1.0
"""Seconds that an engine's end may wait for us, and that a file that could not be written is left alone."""
LAST_WRITE = 0.2
"""Seconds of that which are kept for the last ledger, whatever a collector does."""
PACKAGES = {"sglang": ("sglang",), "mooncake": ("mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda"), "hicachectl": ("hicachectl",)}
LEDGER_POINT = "ledger"
"""Stands for a point in the records of the ledger's own spans."""


def version(*names: str) -> str:
    """Version of the first of these distributions that is installed, else an empty string."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


class Spool:
    """One process's part of a recording."""

    def __init__(
        self, settings: Settings, recorder: Recorder, ledger: Ledger, exporter: "Exporter | None" = None, metrics: "Metrics | None" = None
    ) -> None:
        self.settings = settings
        self.exporter = exporter
        self.metrics = metrics
        ledger.export = exporter.counts if exporter is not None else None
        self.recorder = recorder
        recorder.settle = self.settle
        self.queue = recorder.queue
        self.ledger = ledger
        self.folder = settings.folder or Path()
        self.ranks: dict[str, int | None] = {}
        self.versions = {name: version(*packages) for name, packages in PACKAGES.items()}
        shapes = {LEDGER_POINT: Shape(v.LEDGER, tuple(key for key, _ in ledger.attributes()))}
        self.encoder = Encoder(shapes, recorder.fault, self.queue.release)
        self.encoder.spans = recorder.spans
        self.encoder.joins = carry.joins
        if metrics is not None:
            self.encoder.details = {}
        self._name()

    def learn(self, shapes: dict[str, Shape]) -> None:
        """Take the shapes of the points that will be recorded."""
        self.encoder.shapes.update(shapes)

    def _name(self) -> None:
        """Take the identity of this process."""
        self.host = socket.gethostname()
        self.pid = os.getpid()
        self.start_ms = time.time_ns() // 1_000_000
        self.engine = f"{self.host}:{self.pid}:{self.start_ms}"
        self.stem = f"{self.host.replace('/', '_')}-{self.pid}-{self.start_ms}"
        self.parts = Parts(self.folder, self.stem, self.settings.part_bytes, self.settings.parts)
        self.encoder.rename(self.engine)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._end_by = 0.0
        self._asks: deque[threading.Event] = deque()
        """Who waits in `settle`: each is told once everything that was there when it asked is written."""
        self._retry_at = 0.0
        self._last_ledger = 0.0
        self._ledger_state: Any = None
        self._resource_text: tuple[Any, str] = (None, "")
        self._ledger_written = -1
        self._last_ledger_span = 0.0

    # -- life ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the writer thread; it makes no file before there is something to write."""
        self._thread = threading.Thread(target=self._run, name="hicachectl-writer", daemon=True)
        self._thread.start()
        if self.exporter is not None:
            self.exporter.start()
        if self.metrics is not None:
            self.metrics.start()

    def reborn(self) -> None:
        """In a forked child: a file, a ledger and a writer of its own; the parent's file is left alone."""
        self.ledger.renew()
        self.ranks = {}
        self._name()
        if self.exporter is not None:
            self.exporter.renew()
        if self.metrics is not None:
            self.metrics.renew()
        self.start()

    def say_end(self, now_ms: int) -> None:
        """In a parent that ends its schedulers: a ledger that says so, for they themselves are killed; waits a second at most."""
        self.ledger.end(now_ms)
        # The schedulers' own writers get the time to write what they linger over.
        time.sleep(3 * PAUSE)
        if self.settle() and self.exporter is not None:
            self.exporter.settle()

    def settle(self) -> bool:
        """Have what waits written now, for this process may be killed next; waits a second at most, and says whether it was enough."""
        if self._thread is None or not self._thread.is_alive():
            return False
        told = threading.Event()
        self._asks.append(told)
        self.queue.wake()
        return told.wait(PATIENCE)

    def close(self, *, ends: bool = True) -> None:
        """Record no more, write what waits and the last ledger; waits a second at most, for a disk may hang.

        ENDS says that this process ends with it: what it started then ends in order.
        """
        self.recorder.switch(False)
        self.ledger.closed = True
        if ends and not self.ledger.is_scheduler and self.ledger.ended_ms is None:
            # A parent that ends in order has ended its schedulers, which may have been killed.
            self.ledger.end(time.time_ns() // 1_000_000)
        self._end_by = time.monotonic() + PATIENCE
        self._stop.set()
        self.queue.wake()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.queue.sleep(LEDGER_EVERY):
                self._linger()
            self.flush()
        self.flush(final=True, seconds=PATIENCE / 2)
        if self.exporter is not None:
            self.exporter.close(self._end_by - LAST_WRITE)
            self._write_document()
        if self.metrics is not None:
            self.metrics.close(self._end_by - LAST_WRITE)
        self.parts.close()

    def _linger(self) -> None:
        """Wait for more, until the engine rests, much waits, or somebody asks: each meeting with the writer costs a busy engine a millisecond."""
        self.queue.open()
        until = time.monotonic() + LINGER
        before = None
        while (now := (len(self.queue.records), carry.pulse.steps)) != before and not self.queue.holds(PLENTY) and time.monotonic() < until:
            if self._asks or self._stop.is_set():
                return
            before = now
            self.queue.rest(PAUSE)

    def flush(self, *, final: bool = False, seconds: float = math.inf) -> None:
        """Write the records that wait, for so many SECONDS, and the ledger when it is due; raises nothing. Called by the writer alone."""
        began, asks = time.monotonic(), len(self._asks)
        final = final or asks > 0
        try:
            self.queue.open()
            # What comes meanwhile is for the next time: an end that waited for the last record might never come.
            waiting = len(self.queue.records)
            while waiting > 0 and (taken := self._write_some()):
                waiting -= taken
                if self._stop.is_set() and seconds == math.inf:
                    # This process ends: what is left has the time that an end may take, and no more.
                    return
                if time.monotonic() - began > seconds:
                    self.ledger.lost += len(self.queue.records)
                    break
            now = time.monotonic()
            if final or now - self._last_ledger >= (NEWS_EVERY if self.ledger.news else LEDGER_EVERY):
                self._last_ledger, self.ledger.news = now, False
                self._write_ledger(final=final)
            self._tell_metrics(final=final and self._stop.is_set())
        except Exception as fault:  # noqa: BLE001 - the writer must outlive any disk
            self._fault(fault)
        # Who asked meanwhile may have left a record that this time did not take.
        for _ in range(asks):
            self._asks.popleft().set()

    def _fault(self, fault: Exception) -> None:
        with contextlib.suppress(Exception):  # raises under test only
            self.recorder.guard.fault("spool", fault, retires=False)

    # -- files -----------------------------------------------------------------------------------------------------
    def _write_some(self) -> int:
        """Write a line; how many records were taken for it."""
        spans: list[str] = []
        length = taken = 0
        while length < LINE_CHARACTERS and (records := self.queue.take(BATCH)):
            taken += len(records)
            made = self.encoder.spans_of(records)
            if self.metrics is not None:
                self._measure(records)
            spans += made
            length += sum(map(len, made))
            if len(self.queue.records) < HURRY and not self._stop.is_set():
                time.sleep(0)
        if spans and not self._write(spans):
            self.ledger.lost += len(spans)
        # Records that could not be encoded are lost as well.
        self.ledger.lost += taken - len(spans)
        return taken

    def _write(self, spans: list[str]) -> bool:
        """Write a line of spans; whether it is in the file."""
        now = time.monotonic()
        line = encode.line(self._resource(), self._scope(), spans)
        if self.exporter is not None:
            self._offer(line, spans)
        if self.parts.gone or now < self._retry_at:
            return False
        try:
            self.ledger.lost += self.parts.write(line, len(spans))
        except OSError as fault:
            self._retry_at = now + PATIENCE
            self._fault(fault)
            return False
        finally:
            self.ledger.written = self.parts.spans
        return True

    def _offer(self, line: bytes, spans: list[str]) -> None:
        """Hand a LINE of SPANS to the exporter, without those that the sampler leaves out: the file has them all."""
        if self.exporter is None:
            return
        sent = self.exporter.sampled(spans, self.encoder.own)
        if len(sent) < len(spans):
            line = encode.line(self._resource(), self._scope(), sent)
        if sent:
            self.exporter.offer(line, len(sent))

    def _measure(self, records: list[Record]) -> None:
        """Take RECORDS into the metrics, while the writer still has what it worked out for them."""
        if self.metrics is not None and self.encoder.details is not None:
            for fault in self.metrics.take(records, self.encoder.shapes, self.encoder.details):
                self._fault(fault)
            self.encoder.details.clear()

    def _tell_metrics(self, *, final: bool) -> None:
        """Have the metrics sent, when they are due or this is the end; a process without a scheduler has none."""
        if self.metrics is not None and self.ledger.is_scheduler and self.metrics.due(final=final):
            self.metrics.tell(self.ledger, self._resource(), self._scope(), self.start_ms * 1_000_000, self.engine)

    def _scope(self) -> str:
        return f'{{"name":"{v.R_SCOPE}","version":"{self.versions["hicachectl"]}"}}'

    def _write_ledger(self, *, final: bool) -> None:
        if not self.parts.look():
            return
        # A process in which points fail says so, though it may have no span to write.
        seen = self.parts.opened or self.ledger.is_scheduler or self.recorder.guard.total > 0
        if not seen and not (final and self.folder.exists() and self.ledger.landings):
            return
        facts = self.ledger.attributes()
        # What changes with every span is no news by itself.
        state = [value for key, value in facts if key not in (v.WRITTEN, v.DROPPED, v.SEEN, v.EXPORT_DROPPED, v.EXPORT_UNSAMPLED)]
        news = (seen and state != self._ledger_state) or self._collector_must_know(final=final)
        if news and self._write(self.encoder.spans_of([self._told_as_span(facts)])):
            self._ledger_state, self._ledger_written, self._last_ledger_span = state, self.ledger.written, time.monotonic()
        self._write_document()

    def _collector_must_know(self, *, final: bool) -> bool:
        """Whether the ledger is news to a collector, who has no file of it: spans were written, a while has passed, or this is the end."""
        if self.exporter is None or self.exporter.dead:
            return False
        return final or self.ledger.written != self._ledger_written or time.monotonic() - self._last_ledger_span >= LEDGER_SPAN_EVERY

    def _write_document(self) -> None:
        if self.parts.gone or not self.folder.exists():
            return
        try:
            ledgers.write(self.folder / f"ledger-{self.stem}.json", self.ledger.document(self._identity()))
        except OSError as fault:
            self._fault(fault)

    def _told_as_span(self, facts: list[tuple[str, Any]]) -> Record:
        now = self.queue.clock()
        thread = (threading.get_native_id(), threading.current_thread().name)
        return (LEDGER_POINT, now, now, next(self.queue.numbers), 0, None, thread, tuple(value for _, value in facts), None)

    def _identity(self) -> dict[str, Any]:
        return {
            "recording_version": v.RECORDING_VERSION,
            "engine": self.engine,
            "host": self.host,
            "pid": self.pid,
            "ppid": os.getppid(),
            "start_ms": self.start_ms,
            "seen_ms": time.time_ns() // 1_000_000,
            "ended_ms": self.ledger.ended_ms,
            "ends_ms": self.ledger.ends_ms,
            "versions": self.versions,
        }

    def _resource(self) -> str:
        known = (self.ranks.get("tp"), self.ranks.get("pp"), stand_in())
        if self._resource_text[0] != known:
            self._resource_text = known, self._resource_of(*known)
        return self._resource_text[1]

    def _resource_of(self, tp_rank: int | None, pp_rank: int | None, stands_in: str | None) -> str:
        values: dict[str, Any] = {
            **dict(self.settings.resource),
            v.R_SERVICE: self.settings.service,
            v.R_HOST: self.host,
            v.R_PID: self.pid,
            v.R_ENGINE: self.engine,
            v.R_VERSION: v.RECORDING_VERSION,
            v.R_SGLANG: self.versions["sglang"],
            v.R_MOONCAKE: self.versions["mooncake"],
            v.R_TP_RANK: tp_rank,
            v.R_PP_RANK: pp_rank,
            v.R_STAND_IN: stands_in,
        }
        return ",".join(encode.attribute(key, value) for key, value in values.items() if value is not None)
