"""What runs now: on this thread, so that a call in a worker thread is tied to its request; and whether the engine is at work at all."""

import threading
from typing import Any

ATTRIBUTE = "_hicachectl_carry"
"""Where an engine object keeps whom it serves; a plain Python attribute, gone with the object."""


MOST_JOINS = 16_384
"""Requests whose place in the engine's own trace is remembered."""

joins: dict[str, tuple[str, str]] = {}
"""Request id -> (trace id, span id) of the engine's own tracing, in hex; the writer takes them out."""


class Frame:
    """One carrying call on one thread: its request, its span, and what calls inside it have noted.

    A thread's frames are made once and used again: a call inside a call takes the next one.
    """

    __slots__ = ("inner", "notes", "outer", "point", "rid", "span")

    def __init__(self, outer: "Frame | None" = None) -> None:
        self.outer = outer
        self.inner: Frame | None = None
        self.point = ""
        self.rid: str | None = None
        self.span = 0
        self.notes: dict[str, Any] | None = None

    def deeper(self) -> "Frame":
        """The frame for a call inside this one, made now."""
        self.inner = Frame(self)
        return self.inner


class Here(threading.local):
    """The current frame of this thread, and the thread's own name."""

    def __init__(self) -> None:
        self.first = Frame()
        self.frame: Frame | None = None
        self.label: tuple[int, str] = (threading.get_native_id(), threading.current_thread().name)
        self.last_rid: str | None = None


here = Here()


class Pulse:
    """Steps that the engine has taken, decode steps among them, which leave no record: by it the writer knows an engine that is at work."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


pulse = Pulse()


def forget() -> None:
    """Start afresh on this thread, as in a forked child: it is another thread, and inside no call."""
    here.__init__()  # type: ignore[misc]


def join(rid: str, trace: int, span: int) -> None:
    """Have the spans of a request hang under a span of the engine's own; ids of 0 are none."""
    if trace > 0 and span > 0 and len(joins) < MOST_JOINS:
        joins[rid] = f"{trace:032x}", f"{span:016x}"


def note(key: str, value: Any) -> None:
    """Leave VALUE for the reader of the innermost carrying call."""
    frame = here.frame
    if frame is not None:
        if frame.notes is None:
            frame.notes = {}
        frame.notes[key] = value


def add(key: str, amount: int) -> None:
    """Add AMOUNT to a number noted for the innermost carrying call."""
    frame = here.frame
    if frame is not None:
        if frame.notes is None:
            frame.notes = {}
        frame.notes[key] = frame.notes.get(key, 0) + amount


def noted(key: str, default: Any = None) -> Any:
    """What calls inside the current one have left under KEY."""
    frame = here.frame
    if frame is None or frame.notes is None:
        return default
    return frame.notes.get(key, default)


def pass_on(**notes: Any) -> None:
    """Leave notes for the call outside the current one."""
    outer = here.frame.outer if here.frame is not None else None
    if outer is not None:
        outer.notes = {**(outer.notes or {}), **notes}


def within(point: str) -> bool:
    """Whether a call of POINT is under way on this thread."""
    frame = here.frame
    while frame is not None:
        if frame.point == point:
            return True
        frame = frame.outer
    return False


def attach(thing: Any) -> None:
    """Let an engine object remember whom the current call serves; objects that take no attribute are left alone."""
    frame = here.frame
    if frame is None:
        return
    try:
        setattr(thing, ATTRIBUTE, (frame.rid, frame.span))
    except AttributeError:
        return


def served(thing: Any) -> str | None:
    """Request id that an engine object was made for, or None."""
    carried = getattr(thing, ATTRIBUTE, None)
    return carried[0] if carried else None
