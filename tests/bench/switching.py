"""Inside the engine's process: puts the tracers, or OpenTelemetry's SDK in the same hooks, on and off between requests, and takes the time of each.

A request says by its id how it wants to be served: `off-1`, `ours-2`, `held-3`, `ten-4`, `otel-5`.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import otel
from tracers import carry, install, plugin
from tracers.around import Recorder, wrap
from tracers.guard import Guard
from tracers.install import Installer
from tracers.ledger import Ledger
from tracers.point import SKIP, Point, Target
from tracers.points import ALL
from tracers.record import Late, Queue
from tracers.spool import PACKAGES, version

SCHEDULER = "sglang.srt.managers.scheduler:Scheduler"
ENGINE_LIFE = ("engine.", "write.thread", "prefetch.thread")
"""Rows of calls that are not made for a request; they stay as they are."""
OURS, HELD, OTEL, TEN, OFF = "ours", "held", "otel", "ten", "off"
TIMES = 10
"""How often each span is recorded in the mode that shows the slope."""

Wrap = Callable[[Point, Callable[..., Any], Recorder], Callable[..., Any]]


class Switch:
    """The modes, which one is on, and the times of the request that runs."""

    def __init__(self, out: str) -> None:
        self.out = Path(out).open("a", buffering=1)  # noqa: SIM115 - lives as long as the engine
        self.wraps: dict[str, Wrap] = {OURS: wrap, HELD: wrap, TEN: ten_times, OTEL: in_spans()}
        self.kept = Recorder(Queue(1 << 20, 1 << 40), Guard())
        """Records that no writer ever sees."""
        self.on: Installer | None = None
        self.mode = OFF
        self.tracers: Installer | None = None
        self.block = ""
        self.marks: list[tuple[int, int, int]] = []
        """Clocks at the arrival of a request, then each time that a batch came back."""

    def arrive(self, args: Any, kwargs: Any) -> Any:
        """Requests came: serve them as they ask for, and start the clocks."""
        rid = next((each.rid for each in args[1] if isinstance(getattr(each, "rid", None), str)), "")
        if rid.partition("-")[0] in (OFF, *self.wraps):
            self._note()
            mode, _, self.block = rid.partition("-")
            self._turn(mode)
            self.marks.append(now())
        return SKIP

    def result(self, args: Any, kwargs: Any, state: Any, result: Any, error: Any) -> Any:
        """A batch came back: the first one after an arrival is the first token."""
        if self.marks:
            self.marks.append(now())

    def idle(self, args: Any, kwargs: Any) -> Any:
        """Nothing is left to do."""
        self._note()
        return SKIP

    def _note(self) -> None:
        """Write how long the request took that is over."""
        if len(self.marks) > 1:
            begun, first, last = self.marks[0], self.marks[1], self.marks[-1]
            took = {"mode": self.mode, "block": self.block, "first": first[0] - begun[0]}
            self.out.write(json.dumps(took | {key: last[place] - begun[place] for place, key in enumerate(("wall", "cpu", "process"))}) + "\n")
        self.marks = []

    def _turn(self, mode: str) -> None:
        if mode == self.mode:
            return
        if self.on is not None:
            self.on.off()
            self.on = None
        self.mode = mode
        if mode != OFF and self.tracers is not None:
            install.wrap = self.wraps[mode]
            self.kept.queue.renew()
            self.kept.queue.open()
            recorder = self.kept if mode == HELD else self.tracers.recorder
            points = [point for point in ALL if not point.id.startswith(ENGINE_LIFE)]
            self.on = Installer(points, recorder, Ledger(recorder), plugin_versions())
            self.on.on()
            install.wrap = wrap


def now() -> tuple[int, int, int]:
    """Wall clock, CPU of this thread, CPU of this process."""
    return time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns()


@functools.cache
def plugin_versions() -> dict[str, str]:
    """Versions of what is installed, as the plugin reads them."""
    return {name: version(*packages) for name, packages in PACKAGES.items()}


def ten_times(point: Point, original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """ORIGINAL with ten wrappers around it, for the slope of one."""
    for _ in range(TIMES):
        original = wrap(point, original, recorder)
    return original


def in_spans() -> Wrap:
    """What OpenTelemetry's SDK would do in the same hooks: a span for the call, its attributes set from the same readers."""
    tracer = otel.tracer()

    def wrap_in_span(point: Point, original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
        @functools.wraps(original)
        def traced(*args: Any, **kwargs: Any) -> Any:
            state = point.before(args, kwargs) if point.before else None
            if state is SKIP:
                return original(*args, **kwargs)
            with tracer.start_as_current_span(point.span or point.id) as span:
                outer = carry.here.frame
                if point.carries:
                    carry.here.frame = (carry.here.first if outer is None else outer.inner) or outer.deeper()  # type: ignore[union-attr]
                    carry.here.frame.point, carry.here.frame.notes = point.id, None
                    carry.here.frame.rid = (point.rid(args, kwargs) if point.rid else None) or (outer.rid if outer is not None else None)
                try:
                    result = original(*args, **kwargs)
                    values = point.after(args, kwargs, state, result, None) if point.after else None
                finally:
                    carry.here.frame = outer
                for each in (values if point.many else [(None, values)]) if values else ():
                    for key, value in zip(point.attributes, each[1], strict=False):
                        if value is not None and not isinstance(value, Late):
                            span.set_attribute(key, value)
            return result

        return traced

    return wrap_in_span


def prepare(out: str) -> None:
    """Called where the engine's script is imported by its scheduler: after the plugin has begun, the switch is put on."""
    switch = Switch(out)
    begin = plugin._begin

    def began(asked: Any) -> None:
        begin(asked)
        switch.tracers = next(finder for finder in sys.meta_path if isinstance(finder, Installer))
        # The tracers' own wrappers come off again but for the engine's life: each mode starts from nothing.
        switch.tracers.rows = [row for row in switch.tracers.rows if row[0].id.startswith(ENGINE_LIFE)]
        own = Recorder(Queue(1, 1), Guard())
        rows = [
            Point("arrive", "bench", "", (Target(f"{SCHEDULER}.process_input_requests"),), before=switch.arrive),
            Point("result", "bench", "", (Target(f"{SCHEDULER}.process_batch_result"),), after=switch.result),
            Point("idle", "bench", "", (Target(f"{SCHEDULER}.on_idle"),), before=switch.idle),
        ]
        Installer(rows, own, Ledger(own), {}).on()

    plugin._begin = began
    os.environ.pop("HICACHECTL_LOUD", None)
