"""A Point -> a wrapper; one body for every row.

The body is a text from which a function is made for each target, as `dataclasses` does: with the target's own parameters, and
only with what its row asks for. So a recorded call costs little more than its two clocks, and its readers.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, cast

from tracers import carry
from tracers import vocabulary as v
from tracers.carry import Frame
from tracers.guard import Guard
from tracers.point import SKIP, Point
from tracers.record import Error, Late, Queue

EXPANDING = frozenset({v.LATE, v.PAGE_KEYS})
"""Attributes whose value may be `Late`."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Recorder:
    """What wrappers need of their process: the queue, the guard, and a row for each point."""

    def __init__(self, queue: Queue, guard: Guard) -> None:
        self.queue = queue
        self.guard = guard
        self.rows: dict[str, Row] = {}
        self.spans: dict[str, int] = {}
        """Spans that the writer made, by point."""
        self.on = True
        self.after_fork: Callable[[], None] | None = None
        self.settle: Callable[[], bool] = lambda: True
        """Has what waits written now; waits a second at most."""

    @property
    def calls(self) -> dict[str, int]:
        """Calls that were looked at, by point."""
        return {name: row.calls for name, row in self.rows.items()}

    def row(self, point: Point) -> "Row":
        """The row of POINT in this process, shared by its targets."""
        found = self.rows.get(point.id)
        if found is None:
            found = self.rows[point.id] = Row(point, self)
        return found

    def switch(self, on: bool) -> None:
        """Let every wrapper record, or pass through; retired ones stay off."""
        self.on = on
        for row in self.rows.values():
            row.off = not on or row.id in self.guard.retired

    def fault(self, point_id: str, error: BaseException) -> None:
        """Count a fault against a point, and switch its wrappers off when it is retired."""
        if self.guard.fault(point_id, error) and point_id in self.rows:
            self.rows[point_id].off = True

    def sleep(self, again: Callable[[], None]) -> None:
        """In a forked child: record nothing, and start with AGAIN at the first traced call; between fork and exec nothing may happen."""
        if self.on:
            self.switch(False)
            self.after_fork = again

    def revived(self) -> bool:
        """Start afresh in a forked child; whether we record now."""
        again, self.after_fork = self.after_fork, None
        if again is None:
            return self.on
        try:
            self.guard.renew()
            self.queue.renew()
            self.spans.clear()
            for row in self.rows.values():
                row.calls = 0
            carry.forget()
            again()
            self.switch(True)
        except Exception as fault:  # noqa: BLE001
            self.guard.fault("fork", fault, retires=False)
        return self.on


class Row:
    """A point in this process: whether it is off, how often it was called, and the parts of the body that are not hot."""

    __slots__ = ("calls", "id", "off", "point", "quotes", "recorder")

    def __init__(self, point: Point, recorder: Recorder) -> None:
        self.id = point.id
        self.point = point
        self.recorder = recorder
        self.off = not recorder.on
        self.calls = 0
        self.quotes = v.ERROR_TEXT in point.attributes

    def stays_off(self) -> bool:
        """Asked when the row is off: only a forked child begins anew."""
        return not (self.recorder.after_fork is not None and self.recorder.revived()) or self.off

    def fault(self, error: BaseException) -> None:
        """A reader, or the recording, failed: the engine is not affected."""
        self.recorder.fault(self.id, error)

    def enter(self, args: Any, kwargs: Any, state: Any, outer: Frame | None, rid: str | None, after: Any) -> bool:
        """Record a call that begins, and is not looked at when it ends; False."""
        now = self.recorder.queue.clock()
        self.put_all(after(args, kwargs, state, None, None), None, now, now, 0, outer, rid)
        return False

    def fail(
        self, args: Any, kwargs: Any, state: Any, error: BaseException, after: Any, start: int, number: int, outer: Frame | None, rid: str | None
    ) -> None:
        """Record a call that ended in ERROR; raises nothing."""
        try:
            end = self.recorder.queue.clock()
            values = after(args, kwargs, state, None, error) if after is not None else None
            self.put_all(values, self._told(error), start, end, number, outer, rid)
        except Exception as fault:  # noqa: BLE001 - nothing of ours may reach the engine
            self.fault(fault)
        finally:
            if self.point.carries:
                carry.here.frame = outer
            if self.point.fatal:
                # Though the reader may have failed: what led to it has to be on disk too.
                self._settle()

    def _settle(self) -> None:
        try:
            self.recorder.settle()
        except Exception as fault:  # noqa: BLE001 - as above
            self.fault(fault)

    def put_all(self, values: Any, error: Error | None, start: int, end: int, number: int, outer: Frame | None, rid: str | None) -> None:
        """Queue what a reader returned: values, a list of (request id, values), or None for nothing."""
        if values is None or self.point.span is None:
            return
        if not self.point.many:
            self.put(values, error, start, end, outer, rid, number)
            return
        for each_rid, each in values:
            self.put(each, error, start, end, outer, each_rid)

    def put(self, values: Any, error: Error | None, start: int, end: int, outer: Frame | None, rid: str | None, number: int = 0) -> None:
        """Queue one span; detail that does not fit is left out and counted."""
        queue = self.recorder.queue
        if not EXPANDING.isdisjoint(self.point.attributes):
            values = self.admitted(values)
        parent = outer.span if outer is not None else 0
        queue.put((self.id, start, end, number or next(queue.numbers), parent, rid, carry.here.label, values, error))

    def admitted(self, values: Any) -> Any:
        """VALUES without the detail that does not fit."""
        admit = self.recorder.queue.admit
        return tuple([admit(value) if isinstance(value, Late) else value for value in values])

    def _told(self, error: BaseException) -> Error:
        """An exception's text may quote what the request said: only rows that ask for it get it."""
        return type(error).__name__, str(error).split("\n", 1)[0][:200] if self.quotes else None


def wrap(point: Point, original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """A function that calls ORIGINAL exactly once, passes its result or exception through, and records what POINT reads."""
    body = _body(point)
    parameters, passed, args, kwargs = _shape(original, body)
    source = body.format(parameters=parameters, passed=passed, args=args, kwargs=kwargs)
    row, queue = recorder.row(point), recorder.queue
    made: dict[str, Any] = {}
    known = {
        "original": original, "row": row, "threads": carry.here, "SKIP": SKIP, "NOTHING": NOTHING, "name": point.id,
        "before": point.before, "after": point.after, "rid_of": point.rid, "queue": queue, "append": queue.records.append,
        "next_number": queue.numbers.__next__, "clock": queue.clock,
    }  # fmt: skip
    exec(_compiled(f"def make({', '.join(known)}):\n{indent(source, '    ')}\n    return traced", point.id), made)  # noqa: S102 - our own text
    traced: Any = functools.wraps(original)(made["make"](**known))
    if args != "args":
        traced.__defaults__, traced.__kwdefaults__ = original.__defaults__, original.__kwdefaults__
    return cast("Callable[..., Any]", traced)


_BODY = """\
def traced({{parameters}}):
    if row.off and row.stays_off():
        return original({{passed}})
    args, kwargs = {{args}}, {{kwargs}}
    try:
        {opens}
        if opened:
            {begin}
    except Exception as fault:
        opened = False
        row.fault(fault)
    if not opened:
        return original({{passed}})
    try:
        answer = original({{passed}})
    except BaseException as error:
        row.fail(args, kwargs, {state}, error, after, {start}, {number}, outer, rid)
        raise
    try:
        {leave}
    except Exception as fault:
        row.fault(fault)
    finally:
        {restore}
    return answer
"""


def _body(point: Point) -> str:
    """The text of POINT's wrapper, but for the target's parameters."""
    records, state = point.span is not None and not point.at_entry, "state" if point.before else "None"
    numbered = records or point.carries
    return _BODY.format(
        opens=_lines(8, *_opens(point)),
        begin=_lines(12, *_begin(point, numbered=numbered, records=records, state=state)),
        state=state,
        start="start" if records else "0",
        number="number" if numbered else "0",
        leave=_lines(8, *_leave(point, records=records, state=state)),
        restore='here["frame"] = outer' if point.carries else "pass",
    )


_WHERE = 'here = threads.__dict__; outer = here["frame"]'


def _opens(point: Point) -> Iterator[str]:
    tests = ["(outer is None or outer.point != name)"] if point.once else []
    tests += ["(state := before(args, kwargs)) is not SKIP"] if point.before else []
    if point.once:
        yield _WHERE
    yield f"opened = {' and '.join(tests) or 'True'}"


def _begin(point: Point, *, numbered: bool, records: bool, state: str) -> Iterator[str]:
    if not point.once:
        yield _WHERE
    yield "row.calls += 1"
    yield "rid = rid_of(args, kwargs)" if point.rid else "rid = None"
    yield "if rid is None and outer is not None: rid = outer.rid"
    if point.at_entry:
        yield f"opened = row.enter(args, kwargs, {state}, outer, rid, after)"
        return
    if numbered:
        yield "number = next_number()"
    if point.carries:
        yield 'frame = (here["first"] if outer is None else outer.inner) or outer.deeper()'
        yield "frame.point = name; frame.rid = rid; frame.span = number; frame.notes = None"
    if records:
        yield "start = clock()"
    if point.carries:
        yield 'here["frame"] = frame'


def _leave(point: Point, *, records: bool, state: str) -> Iterator[str]:
    if records:
        yield "end = clock()"
    if point.after is None:
        yield "pass"
        return
    yield f"values = after(args, kwargs, {state}, answer, None)"
    if not records:
        return
    if point.many or not EXPANDING.isdisjoint(point.attributes):
        yield "row.put_all(values, None, start, end, number, outer, rid)"
        return
    yield "if values is not None:"
    yield '    record = (name, start, end, number, outer.span if outer is not None else 0, rid, here["label"], values, None)'
    yield "    if number < queue.sure: append(record)"
    yield "    else: queue.put(record)"


def _lines(depth: int, *lines: str) -> str:
    return f"\n{' ' * depth}".join(lines)


def _shape(original: Any, body: str) -> tuple[str, str, str, str]:
    """(parameters, arguments passed on, what readers get as args, and as kwargs), as text.

    A plain function gets its own parameters, which spares two containers a call. What is decorated, native, or uses a name of
    the body, gets any.
    """
    anything = ("*args, **kwargs", "*args, **kwargs", "args", "kwargs")
    if type(original) is not FunctionType or hasattr(original, "__wrapped__"):
        return anything
    code = original.__code__
    names = code.co_varnames
    count, only, before = code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or {*names[: count + only]} & {*re.findall(r"\w+", body)}:
        return anything
    places, keys = list(names[:count]), list(names[count : count + only])
    parameters = [*places[:before], *["/"] * bool(before), *places[before:], *["*"] * bool(only), *keys]
    passed = [*places, *(f"{key}={key}" for key in keys)]
    kwargs = "{" + ", ".join(f"{key!r}: {key}" for key in keys) + "}" if keys else "NOTHING"
    return ", ".join(parameters), ", ".join(passed), f"({''.join(f'{place}, ' for place in places)})", kwargs


@functools.cache
def _compiled(source: str, point_id: str) -> CodeType:
    return compile(source, f"<hook point {point_id}>", "exec")
