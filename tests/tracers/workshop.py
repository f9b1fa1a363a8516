"""What tests of the tracers build: rows, wrapped functions, and the records that they leave."""

from collections.abc import Callable
from typing import Any

from tracers import vocabulary as v
from tracers.around import Recorder, wrap
from tracers.guard import Guard
from tracers.point import Point
from tracers.record import Queue, Record


def clock(step: int = 10) -> Callable[[], int]:
    """A clock that advances by STEP nanoseconds each time it is read."""
    now = 0

    def tick() -> int:
        nonlocal now
        now += step
        return now

    return tick


def recorder(limit: int = 1000, weight: int = 1000, retire_after: int = 5) -> Recorder:
    """A recorder that nobody empties."""
    made = Recorder(Queue(limit, weight, clock()), Guard(retire_after))
    made.guard.loud = False
    return made


def nothing_read(*_: Any) -> tuple[()]:
    """A reader of no attributes."""
    return ()


def point(name: str = "p", **told: Any) -> Point:
    """A row that makes a span without attributes, unless told otherwise."""
    row: dict[str, Any] = {"span": v.FLUSH, "after": nothing_read, **told}
    return Point(name, "test", "a row of a test", (), **row)


def traced(function: Callable[..., Any], own: Recorder, **told: Any) -> Callable[..., Any]:
    """FUNCTION wrapped for a row."""
    return wrap(point(**told), function, own)


def records(own: Recorder) -> list[Record]:
    """What was recorded so far; the queue is empty then."""
    return own.queue.take(1 << 30)


def values(own: Recorder) -> list[Any]:
    """The values of what was recorded so far."""
    return [record[7] for record in records(own)]
