"""What a finished call leaves behind in the calling thread: plain data in a bounded queue."""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

Error = tuple[str, "str | None"]
"""Type of an exception that passed through, and its text where the row asks for it: the exception itself would keep frames alive."""

Record = tuple[str, int, int, int, int, "str | None", tuple[int, str], Any, "Error | None"]
"""(point id, start ns, end ns, span number, parent's number or 0, request id, thread, values, exception that passed through).

A point id and no row, so that the garbage collector finds nothing to follow in what waits.
"""


class Late:
    """Detail that the writer thread works out, so that the engine's thread does not; `weight` bounds what waits."""

    __slots__ = ("weight",)

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def pairs(self) -> list[tuple[str, Any]]:
        """Attributes worked out now."""
        raise NotImplementedError


class Queue:
    """A bounded queue of records that never blocks: what does not fit is counted.

    Spans are numbered from 1 in each process; the writer makes ids of the numbers. As long as a number is below `sure`, its
    record fits without a look at the queue: since `sure` was set, at most so many spans can have begun. Calls that were
    running then may come on top of the limit.
    """

    def __init__(self, limit: int, weight_limit: int, clock: Callable[[], int] = time.time_ns) -> None:
        self.limit = limit
        self.weight_limit = weight_limit
        self.clock = clock
        self.records: deque[Record] = deque()
        self.numbers = itertools.count(1)
        self.renew()

    def renew(self) -> None:
        """Start empty, as in a forked child: locks may have been held by threads that are not there."""
        self.records.clear()
        self.weight = 0
        self.dropped = 0
        self.detail_dropped = 0
        self.sure = 0
        """0 while the writer sleeps: the next record wakes it."""
        self._asleep = False
        self._lock = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()

    def put(self, record: Record) -> None:
        """Queue RECORD, or count it as dropped when the queue is full; wakes the writer."""
        with self._lock:
            fits = len(self.records) < self.limit
            if fits:
                self.records.append(record)
            else:
                self.dropped += 1
        if not fits:
            self._let_go(record)
        if self._asleep:
            self.wake()

    def admit(self, late: Late) -> Late | None:
        """Let detail wait in the queue, or None when too much waits already; the caller then keeps the summary only."""
        with self._lock:
            if self.weight + late.weight > self.weight_limit:
                self.detail_dropped += 1
                return None
            self.weight += late.weight
        return late

    def release(self, late: Late) -> None:
        """LATE waits no longer; a second call does nothing."""
        with self._lock:
            self.weight -= late.weight
            late.weight = 0

    def _let_go(self, record: Record) -> None:
        values = record[7]
        for value in values if isinstance(values, tuple) else ():
            if isinstance(value, Late):
                self.release(value)

    # -- the writer's side -----------------------------------------------------------------------------------------
    def take(self, most: int) -> list[Record]:
        """Up to MOST records, oldest first; only the writer thread calls this."""
        records = self.records
        taken: list[Record] = []
        while records and len(taken) < most:
            taken.append(records.popleft())
        return taken

    def open(self) -> None:
        """Let records in without a look at the queue, as far as they are sure to fit."""
        number = next(self.numbers)
        self.sure = number + self.limit - len(self.records)

    def shut(self) -> None:
        """Keep nothing from now on: a call that began before may end at any time, when nobody writes what it leaves."""
        self.limit = 0
        self.sure = 0
        self.records.clear()

    def sleep(self, seconds: float) -> bool:
        """Wait until there is a record, or somebody calls `wake`, but SECONDS at most; whether it was woken."""
        self.sure = 0
        self._asleep = True
        woken = bool(self.records) or self._gate.acquire(timeout=seconds)
        self._asleep = False
        return woken

    def holds(self, many: int) -> bool:
        """Whether so MANY records wait, or so much that little room is left: for records, or for their detail."""
        waiting = len(self.records)
        return waiting >= many or 2 * waiting >= self.limit or 4 * self.weight > self.weight_limit

    def rest(self, seconds: float) -> None:
        """Let records come for SECONDS, which only `wake` ends."""
        self._gate.acquire(timeout=seconds)

    def wake(self) -> None:
        """Wake the writer; releasing a lock never waits, which setting an event may."""
        self._asleep = False
        try:
            self._gate.release()
        except RuntimeError:
            return
