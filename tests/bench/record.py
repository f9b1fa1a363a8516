"""What a call costs the engine's thread: recorded, seen and skipped, switched off, against a span of OpenTelemetry's SDK.

Run alone: python -m tests.bench.record
"""

import gc
import resource
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import otel
from tests.bench.pairs import Figure, Work, middle, pin, quick, ratios, show
from tracers import vocabulary as v
from tracers.around import Recorder, wrap
from tracers.guard import Guard
from tracers.point import SKIP, Point
from tracers.record import Queue

KEYS = (v.OUTCOME, v.TOKENS, v.PAGES, v.REASON, v.MESSAGE, v.SECONDS, v.QUEUE, v.BATCH)
CALLS, SPANS = 3000, 150
MILLION = 1_000_000


class Req:
    """What a scheduler's method is given: two strings that are there, numbers that are not shared."""

    def __init__(self) -> None:
        self.rid, self.reason, self.message = "0f3a-request", "R12", "declined"
        self.tokens, self.pages, self.queue, self.batch, self.seconds = 597, 10_037, 300, 100_001, 0.25


class Engine:
    """An object of the engine, hooked below."""

    def method(self, req: Req) -> int:
        """The method that is hooked."""
        return 5


def read(args: Any, kwargs: Any, state: Any, result: Any, error: Any) -> Any:
    """A reader of eight attributes: three strings, four whole numbers, one float."""
    req = args[1]
    return ("ok", req.tokens, req.pages, req.reason, req.message, req.seconds, req.queue, req.batch)


def request(args: Any, kwargs: Any) -> str:
    """The request's id."""
    return str(args[1].rid)


def hooked(own: Recorder, name: str, **row: Any) -> Engine:
    """An engine object whose method is hooked by a row."""
    point = Point(name, "bench", "", (), **{"span": v.FLUSH, "attributes": KEYS, "after": read, **row})
    made = type("Hooked", (Engine,), {"method": wrap(point, Engine.method, own)})
    return made()


def calling(own: Recorder, engine: Engine) -> Work:
    """Call the method, the queue emptied before by somebody else."""
    req = Req()

    def work(times: int) -> None:
        method = engine.method
        own.queue.records.clear()
        own.queue.open()
        for _ in range(times):
            method(req)

    return work


def spanning() -> Work:
    """The same call inside a span of the SDK with the same attributes."""
    tracer, req, engine = otel.tracer(), Req(), Engine()

    def work(times: int) -> None:
        for _ in range(times):
            attributes = {
                v.OUTCOME: "ok", v.TOKENS: req.tokens, v.PAGES: req.pages, v.REASON: req.reason, v.MESSAGE: req.message, v.SECONDS: req.seconds,
                v.QUEUE: req.queue, v.BATCH: req.batch,
            }  # fmt: skip
            with tracer.start_as_current_span("span", attributes=attributes):
                engine.method(req)

    return work


def costs() -> list[Figure]:
    """The ratios of a call in each state."""
    own = Recorder(Queue(1 << 16, 1 << 16), Guard())
    off = hooked(own, "off", rid=request)
    cases: dict[str, tuple[str, float | None, Engine]] = {
        "plain": ("a recorded call, 8 attributes, of an OTel SDK span", 0.025, hooked(own, "plain")),
        "rid": ("... with its request id read", 0.025, hooked(own, "rid", rid=request)),
        "carry": ("... carrying the request for the calls inside", None, hooked(own, "carry", rid=request, carries=True)),
        "skip": ("a call that is looked at and skipped", 0.02, hooked(own, "skip", before=lambda _args, _kwargs: SKIP)),
        "off": ("a wrapper that is switched off, or retired", None, off),
        "bare": ("the call alone, which each of the above holds", None, Engine()),
    }
    own.rows["off"].off = True
    work = {name: (calling(own, engine), CALLS) for name, (_, _, engine) in cases.items()}
    found = ratios(work, (spanning(), SPANS), 5 if quick() else 60)
    return [Figure(cases[name][0], *_with(middle(values), cases[name][1])) for name, values in found.items()]


def _with(told: tuple[float, str], target: float | None) -> tuple[float, float | None, str, str]:
    return told[0], target, "", told[1]


def bytes_per_span() -> list[Figure]:
    """Memory of a buffered span whose numbers are its own, by the allocator's and by the system's count."""
    count = 20_000 if quick() else 200_000
    own = Recorder(Queue(count + 10, 1), Guard())
    engine, req = hooked(own, "memory", rid=request), Req()
    own.queue.open()

    def fill() -> None:
        for number in range(count):
            req.tokens, req.pages, req.queue, req.batch, req.seconds = number + 1000, number + 2000, number + 3000, number + 4000, number * 0.37
            engine.method(req)

    before = resident()
    fill()
    rss = (resident() - before) / count
    own.queue.records.clear()
    gc.collect()
    tracemalloc.start()
    fill()
    traced = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    return [
        Figure("memory of a buffered span with 8 attributes", max(rss, traced), 512, " B", f"(tracemalloc {traced:.0f})"),
        Figure("... of what waits at most, by the queue's limit of 32,768", 32768 * max(rss, traced) / (1 << 20), None, " MiB"),
    ]


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth() -> list[Figure]:
    """What is left of ten million spans that were taken, and of millions that found no room."""
    total = MILLION if quick() else 10 * MILLION
    own = Recorder(Queue(32_768, 1), Guard())
    engine, req = hooked(own, "growth", rid=request), Req()

    def run(times: int, *, taken: bool) -> None:
        for number in range(times):
            if taken and not number % 4096:
                own.queue.records.clear()
                own.queue.open()
            engine.method(req)

    run(MILLION // 2, taken=True)
    run(40_000, taken=False)
    start = resident()
    began = time.monotonic()
    run(total, taken=True)
    run(40_000, taken=False)
    told = f"({total / MILLION:g} million in {time.monotonic() - began:.0f} s)"
    return [Figure("growth of the process after ten million spans", (resident() - start) / (1 << 20), 0.5, " MiB", told)]


def main() -> None:
    """Print the figures."""
    pin()
    parts: list[Callable[[], list[Figure]]] = [costs, bytes_per_span, growth]
    for part in parts:
        show(part())


if __name__ == "__main__":
    main()
