"""Sends what the writer writes to an OpenTelemetry collector as well: a thread of its own, a bounded queue, nothing in anybody's way.

The collector gets the lines of the file, so that both hold the same spans. What does not arrive is counted; the file goes on without it.
Metrics go the same way, by another exporter with a thread of its own.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tracers.encode import trace_of
from tracers.ledger import Export
from tracers.settings import GRPC, METRICS, TRACES, Collector

MOST_SPANS = 2048
MOST_BYTES = 3 << 20
"""Of one request, as JSON: gRPC receivers take 4 MiB unless they were told otherwise."""
PACE_S = 0.1
"""Least time from one request to the next, so that a busy engine sends few large ones; the first after a pause goes at once."""
BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 8.0
GIVE_UP_S = 60.0
"""Time for which a batch is tried again, if the interpreter lives so long."""
LAST_S = 0.8
"""What sending may add to the end of the process, all in all: within the second that the writer may take."""
MOST_TOLD = 8
"""Different troubles that are said; a collector may say something else every time."""

_HEAD, _TAIL = b'{"resourceSpans":[', b"]}\n"

logger = logging.getLogger("hicachectl.tracers")


class Retry(Exception):  # noqa: N818 - an instruction rather than an error
    """The collector may take the same batch later; `after` is when it said so."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class Refused(Exception):  # noqa: N818 - as above
    """The collector will never take this batch."""


class Unable(Exception):  # noqa: N818 - as above
    """This process cannot send at all."""


Send = Callable[[bytes], int]
"""Sends one request, given as OTLP/JSON; the number of spans that the collector refused of it."""
Batch = tuple[bytes, int]
"""(OTLP/JSON line, number of spans)."""


class Exporter:
    """What waits for one collector, and the thread that sends it."""

    def __init__(self, asked: Collector) -> None:
        self.asked = asked
        self.signal = SIGNALS[asked.signal]
        self._bound = round(asked.share * (1 << 64))
        self.counts = Export()
        self._clear()

    def _clear(self) -> None:
        self._waiting: deque[Batch] = deque()
        self._bytes = 0
        self._flying = 0
        """Spans that are being sent."""
        self._lock = threading.Condition()
        self._stopped = False
        self._troubled = False
        """The last attempt failed."""
        self._hurried = False
        """Somebody waits for the queue to become empty."""
        self.dead = False
        """Nothing can be sent from here."""
        self._told: set[str] = set()
        self._last_left = LAST_S
        self._thread: threading.Thread | None = None
        self.counts.sent = self.counts.dropped = self.counts.waiting = self.counts.unsampled = 0

    def start(self) -> None:
        """Start the sending thread; it imports and connects to nothing before there is something to send."""
        self._thread = threading.Thread(target=self._run, name="hicachectl-collector", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Start empty, as in a forked child: what the parent has not sent yet is the parent's."""
        self._clear()

    def offer(self, line: bytes, spans: int) -> None:
        """Queue LINE, or count its SPANS as dropped when it does not fit; never waits for the collector."""
        with self._lock:
            if self.dead or self._stopped or self._bytes + len(line) > self.asked.queue_bytes:
                self.counts.dropped += spans
                return
            if self.signal.latest:
                self._forget_waiting()
            self._waiting.append((line, spans))
            self._bytes += len(line)
            self.counts.waiting += spans
            self._lock.notify_all()

    def sampled(self, spans: list[str], own: str) -> list[str]:
        """Those of SPANS that are to be sent: all of the process's OWN trace, and of the requests those whose trace id says so.

        Every rank, and whoever decides by the same ratio, comes to the same choice (opentelemetry.io, TraceIdRatioBased: the lower 64 bits
        against a bound).
        """
        if self.asked.share >= 1:
            return spans
        traces = map(trace_of, spans)
        sent = [span for span, trace in zip(spans, traces, strict=True) if trace == own or int(trace[16:], 16) < self._bound]
        self.counts.unsampled += len(spans) - len(sent)
        return sent

    def settle(self, until: float = float("inf")) -> None:
        """Wait until all is sent, as long as there is hope, something is left of the last second, and UNTIL (monotonic) has not come."""
        began = time.monotonic()
        most = min(self._last_left, until - began)
        with self._lock:
            # A collector that did not answer is asked once more, at once.
            self._hurried, self._troubled = True, False
            self._lock.notify_all()
            while (self._waiting or self._flying) and not self._troubled and not self.dead:
                left = most - (time.monotonic() - began)
                if left <= 0:
                    break
                self._lock.wait(left)
            self._hurried = False
        self._last_left = max(0.0, self._last_left - (time.monotonic() - began))

    def close(self, until: float = float("inf")) -> None:
        """Settle, and count what is still there as dropped: nobody will send it."""
        self.settle(until)
        with self._lock:
            self._stopped = True
            self._drop(everything=True)

    # -- the thread ------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        sending: Sender | None = None
        if self.asked.unheeded:
            logger.warning(self.signal.unheeded, self.asked.unheeded[:40])
        for setting in self.asked.misread:
            logger.warning("%s means nothing here, so the default is in force", setting[:80])
        while (batch := self._next()) is not None:
            began = time.monotonic()
            try:
                if sending is None:
                    sending = sender(self.asked)
                self._deliver(sending, batch)
            except Unable as fault:
                self._give_up(str(fault))
                return
            except Exception as fault:  # noqa: BLE001 - whatever a foreign host does, the engine must not see it
                self._say(f"{type(fault).__name__}: {fault}")
                with self._lock:
                    self._drop()
            self._pause(PACE_S - (time.monotonic() - began))
        if sending is not None:
            sending.close()

    def _next(self) -> Batch | None:
        """The next request: as many waiting lines as fit into one; None at the end."""
        with self._lock:
            while not self._waiting and not self._stopped:
                self._lock.wait()
            if self._stopped:
                return None
            lines, spans, size = list[bytes](), 0, 0
            while self._waiting:
                line, count = self._waiting[0]
                if lines and (spans + count > MOST_SPANS or size + len(line) > MOST_BYTES):
                    break
                self._waiting.popleft()
                lines.append(line)
                spans, size = spans + count, size + len(line)
            self._bytes -= size
            self._flying = spans
        return joined(lines), spans

    def _deliver(self, sending: "Sender", batch: Batch) -> None:
        """Send BATCH in pieces of which each is small enough, and count each."""
        for piece in self.signal.pieces(batch):
            try:
                refused = self._insist(sending, piece)
            except Refused as fault:
                self._say(str(fault))
                refused = piece[1]
            self._finish(piece, dropped=refused)

    def _insist(self, sending: "Sender", piece: Batch) -> int:
        """Send PIECE, again and again where the collector may take it later; how many spans of it were refused."""
        until, backoff = time.monotonic() + GIVE_UP_S, BACKOFF_S
        while True:
            try:
                refused = min(sending.send(piece[0]), piece[1])
            except Retry as fault:
                self._trouble(True)
                self._say(str(fault))
                self._pause(max(backoff, min(fault.after, GIVE_UP_S)))
                if self._stopped or time.monotonic() > until:
                    return piece[1]
                backoff = min(backoff * 2, LONGEST_BACKOFF_S)
                continue
            self._trouble(False)
            if refused:
                self._say(f"the collector refuses {refused} of {piece[1]} {self.signal.what}")
            return refused

    def _finish(self, piece: Batch, dropped: int) -> None:
        with self._lock:
            if self._stopped:  # the end came first and counted it
                return
            self._flying -= piece[1]
            self.counts.waiting -= piece[1]
            self.counts.dropped += dropped
            self.counts.sent += piece[1] - dropped
            self._lock.notify_all()

    def _trouble(self, troubled: bool) -> None:
        with self._lock:
            self._troubled = troubled
            self._lock.notify_all()

    def _give_up(self, why: str) -> None:
        with self._lock:
            self.dead = True
            self._drop(everything=True)
        self._say(why)

    def _drop(self, *, everything: bool = False) -> None:
        """Count what is being sent as dropped, and with EVERYTHING what waits; the lock is held."""
        self.counts.dropped += self._flying
        self.counts.waiting -= self._flying
        self._flying = 0
        if everything:
            self._forget_waiting()
        self._lock.notify_all()

    def _forget_waiting(self) -> None:
        """Count what waits, and is not being sent, as dropped; the lock is held."""
        waiting = self.counts.waiting - self._flying
        self.counts.dropped += waiting
        self.counts.waiting -= waiting
        self._bytes = 0
        self._waiting.clear()

    def _pause(self, seconds: float) -> None:
        """Wait, but not while somebody else waits for us and there is hope."""
        until = time.monotonic() + seconds
        with self._lock:
            while not self._stopped and not (self._hurried and not self._troubled) and (left := until - time.monotonic()) > 0:
                self._lock.wait(left)

    def _say(self, why: str) -> None:
        """Say WHY, once."""
        if why not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(why)
            told = "%s do not reach the collector at %s: %s; %sthe engine is not affected"
            logger.warning(told, self.signal.what, self.asked.shown, why[:200], self.signal.beside)


# -- lines ---------------------------------------------------------------------------------------------------------------
def joined(lines: list[bytes]) -> bytes:
    """Several lines of the writer as one request."""
    if len(lines) == 1:
        return lines[0]
    return _HEAD + b",".join(line[len(_HEAD) : -len(_TAIL)] for line in lines) + _TAIL


def pieces(batch: Batch) -> Iterator[Batch]:
    """BATCH as requests of at most MOST_BYTES; a single span that is larger stays one."""
    line, spans = batch
    if len(line) <= MOST_BYTES or spans <= 1:
        yield batch
        return
    for group in json.loads(line)["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for some in _grouped(scope["spans"]):
                one = {**group, "scopeSpans": [{**scope, "spans": some}]}
                yield json.dumps({"resourceSpans": [one]}, separators=(",", ":")).encode() + b"\n", len(some)


def _grouped(spans: list[Any]) -> Iterator[list[Any]]:
    some, size = list[Any](), 0
    for span in spans:
        length = len(json.dumps(span, separators=(",", ":")))
        if some and size + length > MOST_BYTES:
            yield some
            some, size = [], 0
        some.append(span)
        size += length
    if some:
        yield some


# -- signals -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Signal:
    """What differs between spans and metrics on their way."""

    what: str
    beside: str
    """What is said to comfort where it does not arrive."""
    unheeded: str
    """What is said of a setting that is not obeyed."""
    pieces: Callable[[Batch], Iterator[Batch]] = lambda batch: iter([batch])
    latest: bool = False
    """A line holds all that the lines before it held, which then need not be sent any more."""


SIGNALS = {
    TRACES: Signal("spans", "the file has them, ", "OTEL_TRACES_SAMPLER=%s is not obeyed, so all spans are sent", pieces),
    METRICS: Signal(
        "metrics", "", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=%s is not obeyed: every sum counts from the start of its process", latest=True
    ),
}


# -- ways to send --------------------------------------------------------------------------------------------------------
class Sender:
    """A connection to a collector."""

    def send(self, line: bytes) -> int:
        """Send one request; spans refused of it. Retry, Refused or Unable otherwise."""
        raise NotImplementedError

    def close(self) -> None:
        """Let the connection go."""


def sender(asked: Collector) -> Sender:
    """The way to send that ASKED names; Unable where there is none."""
    if asked.protocol == GRPC:
        from tracers.otlp_grpc import Grpc  # noqa: PLC0415 - a process that does not send this way pays for none of it

        return Grpc(asked)
    from tracers.otlp_http import Http  # noqa: PLC0415 - as above

    return Http(asked)
