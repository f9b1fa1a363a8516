"""What a finished call leaves behind in the calling thread: plain data in a bounded queue."""

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

MASK = (1 << 64) - 1

Record = tuple[str, int, int, int, int, "str | None", tuple[int, str], tuple[str, ...], tuple[Any, ...], "BaseException | None"]
"""(span name, start ns, end ns, span id, parent id or 0, request id, thread, keys, values, exception that passed through)."""


class Late:
    """Detail that the writer thread works out, so that the engine's thread does not; `weight` bounds what waits."""

    __slots__ = ("weight",)

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def pairs(self) -> list[tuple[str, Any]]:
        """Attributes worked out now."""
        raise NotImplementedError


class Queue:
    """A bounded queue of records that never blocks: what does not fit is counted."""

    def __init__(self, limit: int, weight_limit: int, clock: Callable[[], int] = time.time_ns, seed: bytes | None = None) -> None:
        self.limit = limit
        self.weight_limit = weight_limit
        self.clock = clock
        self.records: deque[Record] = deque()
        # The engine seeds `random` alike on every rank, so ids come from the operating system.
        self._ids = itertools.count(int.from_bytes(seed or os.urandom(8), "big"))
        self._lock = threading.Lock()
        self.weight = 0
        self.dropped = 0
        self.detail_dropped = 0
        self.wake = threading.Event()

    def new_id(self) -> int:
        """A span id, unique in the run."""
        return (next(self._ids) & MASK) or 1

    def put(self, record: Record) -> None:
        """Queue RECORD, or count it as dropped when the queue is full."""
        if len(self.records) >= self.limit:
            with self._lock:
                self.dropped += 1
            return
        self.records.append(record)
        if not self.wake.is_set():
            self.wake.set()

    def admit(self, late: Late) -> Late | None:
        """Let detail wait in the queue, or None when too much waits already; the caller then keeps the summary only."""
        with self._lock:
            if self.weight + late.weight > self.weight_limit:
                self.detail_dropped += 1
                return None
            self.weight += late.weight
        return late

    def release(self, late: Late) -> None:
        """The writer has worked LATE out."""
        with self._lock:
            self.weight -= late.weight

    def take(self, most: int) -> list[Record]:
        """Up to MOST records, oldest first; only the writer thread calls this."""
        records = self.records
        taken: list[Record] = []
        while records and len(taken) < most:
            taken.append(records.popleft())
        return taken
