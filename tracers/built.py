"""What a running engine had built before the tracers were switched on in it: found without a search through its memory, read once.

Reading is all that happens here: attributes of live objects, from a thread of our own. The scheduler stands in the frame that
runs its loop (`managers/scheduler.py`, run_scheduler_process); its storage threads name their controller as their target.
"""

import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from tracers import vocabulary as v
from tracers.around import Recorder
from tracers.encode import Shape
from tracers.point import Args, Kwargs, Point, Target
from tracers.points import ALL
from tracers.record import Late, Record

LOOP = "run_scheduler_process"
"""Function of a scheduler's main thread, whose locals live as long as the process: looking at them keeps nothing alive."""
WORKER = "_bootstrap"
"""Function that runs a process of multiprocessing: what lies below it, in one that was forked, is the parent's."""
DEEPEST = 200
"""Frames looked through: a scheduler's loop lies a few above the bottom of its stack."""
SUFFIX = " in force"

Call = tuple[Args, Kwargs, Any]
"""Arguments and result of a call that would have told what is in force."""


class Built:
    """The parts of this process that the rows read; None for what it does not have."""

    def __init__(self, scheduler: Any, controller: Any) -> None:
        self.scheduler = scheduler
        tree = getattr(scheduler, "tree_cache", None)
        # A tree of sessions stands before the real one (SGLang `session/streaming_session.py`).
        self.tree = getattr(tree, "__dict__", {}).get("inner", tree)
        self.controller = getattr(self.tree, "cache_controller", None) or controller
        self.store = getattr(self.controller, "storage_backend", None)
        self.config = getattr(self.controller, "storage_config", None)

    @property
    def serves(self) -> bool:
        """Whether a scheduler is built here; where its loop has another name, its controller's threads tell."""
        return self.scheduler is not None or self.controller is not None

    @property
    def roots(self) -> list[Any]:
        """Where to look for what holds a method or carries a mark of ours."""
        return [each for each in (self.scheduler, self.tree, self.controller, self.store) if each is not None]

    def calls(self) -> Iterator[tuple[str, Call]]:
        """Point -> the call that it would have seen when this was built."""
        asked = getattr(self.scheduler, "server_args", None)
        if asked is not None:
            placed = getattr(self.scheduler, "ps", self.scheduler)
            ranks = {name: getattr(placed, name, None) for name in ("tp_rank", "pp_rank", "dp_rank")}
            yield "engine.start", ((self.scheduler, asked), ranks, None)
            yield "engine.built", ((self.scheduler, asked), {}, None)
        if self.controller is not None:
            yield "controller.open", ((self.controller,), {}, None)
        if self.controller is not None and self.tree is not None:
            yield "tree.open", ((self.tree,), {}, None)
        if self.store is not None:
            name = getattr(self.controller, "storage_backend_type", None)
            yield "backend.create", ((None, name, self.config), {}, self.store)
            yield "backend.attach", ((self.controller, name), {}, None)
            if getattr(self.store, "config", None) is not None:
                yield "backend.config", ((self.store, self.config), {}, self.store.config)
                yield "backend.open", ((self.store, self.config), {}, None)

    def in_force(self, rows: Iterable[tuple[Point, Target, bool]], recorder: Recorder) -> Iterator[Record]:
        """A record for each of these calls, read by the rows of this version; what cannot be read is left out and counted."""
        points: dict[str, Point] = {}
        for point, target, _ in rows:
            points.setdefault(point.id, point.at(target))
        thread = (threading.get_native_id(), threading.current_thread().name)
        for name, (args, kwargs, result) in self.calls():
            row, queue = points.get(name), recorder.queue
            if row is None or row.after is None:
                continue
            try:
                values = row.after(args, kwargs, None, result, None)
            except Exception as fault:  # noqa: BLE001 - what is read late is a courtesy
                _count(recorder, f"{name}{SUFFIX}", fault)
                continue
            now = queue.clock()
            yield (f"{name}{SUFFIX}", now, now, next(queue.numbers), 0, None, thread, (*_plain(values), True), None)


READ_LATE = frozenset({"engine.start", "engine.built", "controller.open", "tree.open", "backend.create", "backend.attach", "backend.config", "backend.open"})
"""Points of which something is read at an attach: settings in force. That a backend was created is not, for nobody saw it."""


def shapes_in_force() -> dict[str, Shape]:
    """The spans of what is read late: those of the rows, and the mark that says so."""
    return {f"{point.id}{SUFFIX}": Shape(point.span, (*point.attributes, v.IN_FORCE)) for point in ALL if point.id in READ_LATE and point.span is not None}


def find() -> Built:
    """What this process has built; the engine's threads may go on meanwhile."""
    return Built(_scheduler(), next(_of_threads(), None))


def _scheduler() -> Any:
    """The scheduler whose loop the main thread runs, or None."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - there is no other way to it
    for _ in range(DEEPEST):
        if frame is None or frame.f_code.co_name == WORKER:
            break
        if frame.f_code.co_name == LOOP and "scheduler" in frame.f_code.co_varnames:
            return frame.f_locals.get("scheduler")
        frame = frame.f_back
    return None


def _of_threads() -> Iterator[Any]:
    """Controllers whose methods threads run (SGLang `managers/cache_controller.py`, backup_thread_func)."""
    for thread in threading.enumerate():
        owner = getattr(getattr(thread, "_target", None), "__self__", None)
        if hasattr(owner, "mem_pool_host") and hasattr(owner, "storage_backend"):
            yield owner


def _plain(values: Iterable[Any]) -> list[Any]:
    return [None if isinstance(value, Late) else value for value in values]


def _count(recorder: Recorder, where: str, fault: Exception) -> None:
    recorder.guard.fault(where, fault, retires=False)


