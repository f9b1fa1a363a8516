"""A Point -> a wrapper; one body for every row."""

import functools
from collections.abc import Callable
from typing import Any

from tracers.carry import Frame, here
from tracers.guard import Guard
from tracers.point import SKIP, Point
from tracers.record import Late, Queue


class Recorder:
    """What a wrapper needs of its process: the queue, the guard, and counts for the ledger."""

    def __init__(self, queue: Queue, guard: Guard) -> None:
        self.queue = queue
        self.guard = guard
        self.calls: dict[str, int] = {}
        self.spans: dict[str, int] = {}
        self.on = True
        self.after_fork: Callable[[], None] | None = None

    def revived(self) -> bool:
        """In a forked child, start afresh at the first traced call: between fork and exec nothing may happen."""
        again, self.after_fork = self.after_fork, None
        if again is None:
            return False
        try:
            again()
            self.on = True
        except Exception as fault:  # noqa: BLE001
            self.guard.fault("fork", fault)
        return self.on

    def emit(self, point: Point, start: int, span: int, outer: Frame | None, rid: str | None, values: Any, error: BaseException | None) -> None:
        """Queue one span; detail that does not fit is left out and marked."""
        values = tuple(self._bounded(value) for value in values)
        end = start if point.at_entry else self.queue.clock()
        self.queue.put((point.span or "", start, end, span, outer.span if outer else 0, rid, here.label, point.attributes, values, error))
        self.spans[point.id] = self.spans.get(point.id, 0) + 1

    def _bounded(self, value: Any) -> Any:
        return self.queue.admit(value) if isinstance(value, Late) else value


def wrap(point: Point, original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """A function that calls ORIGINAL exactly once, passes its result or exception through, and records what POINT reads."""
    guard, retired, name = recorder.guard, recorder.guard.retired, point.id

    @functools.wraps(original)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if (not recorder.on and not recorder.revived()) or name in retired or (point.once and here.frame is not None and here.frame.point == name):
            return original(*args, **kwargs)
        try:
            opened = _enter(point, recorder, args, kwargs)
        except Exception as fault:  # noqa: BLE001 - nothing of ours may reach the engine
            guard.fault(name, fault)
            opened = None
        if opened is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            try:
                _leave(point, recorder, args, kwargs, opened, None, error)
            except Exception as fault:  # noqa: BLE001
                guard.fault(name, fault)
            raise
        try:
            _leave(point, recorder, args, kwargs, opened, result, None)
        except Exception as fault:  # noqa: BLE001
            guard.fault(name, fault)
        return result

    traced.__hicachectl_original__ = original  # type: ignore[attr-defined]
    return traced


Opened = tuple[Any, int, int, "Frame | None", "str | None"]
"""(state, start, span id, outer frame, request id) of a call that has begun."""


def _enter(point: Point, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened | None:
    state = point.before(args, kwargs) if point.before else None
    if state is SKIP:
        return None
    recorder.calls[point.id] = recorder.calls.get(point.id, 0) + 1
    outer = here.frame
    rid = point.rid(args, kwargs) if point.rid else None
    if rid is None and outer is not None:
        rid = outer.rid
    span = recorder.queue.new_id()
    start = recorder.queue.clock()
    if point.at_entry:
        values = point.after(args, kwargs, state, None, None) if point.after else ()
        recorder.emit(point, start, span, outer, rid, values, None)
        return None
    if point.carries:
        here.frame = Frame(point.id, rid, span, outer)
    return state, start, span, outer, rid


def _leave(point: Point, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any], opened: Opened, result: Any, error: BaseException | None) -> None:
    state, start, span, outer, rid = opened
    try:
        values = point.after(args, kwargs, state, result, error) if point.after else ()
    finally:
        if point.carries:
            here.frame = outer
    if values is None or point.span is None:
        return
    if not point.many:
        recorder.emit(point, start, span, outer, rid, values, error)
        return
    for each_rid, each in values:
        recorder.emit(point, start, recorder.queue.new_id(), outer, each_rid, each, error)
