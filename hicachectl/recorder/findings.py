"""Counts findings and losses while the engine runs, in a thread and within bounds: what is exact is for `explain` to say."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hicachectl import store
from tracers import vocabulary as v

if TYPE_CHECKING:
    from hicachectl.diagnosis.run import Diagnosis

MOST_SPANS = 50_000
"""A recording beyond this is not judged beside a running engine: reading it would take memory and time from it."""
_LEAST_PAUSE_S = 5.0
_SHARE = 20
"""A count may take one part in so many of the time."""


class Findings:
    """Findings by level, and lost tokens, in a recording that grows; `levels` is None until they were counted."""

    def __init__(self, folder: Path) -> None:
        self.levels: dict[str, int] | None = None
        self.lost: Counter[tuple[str, str]] = Counter()
        """(engine, code) -> tokens that were lost, of requests that have finished: each is counted once, so that this only grows."""
        self._settled: set[tuple[str, str, int]] = set()
        self._folder = folder
        self._due = 0.0
        self._counted = 0
        self._thread: threading.Thread | None = None

    def update(self, spans: int) -> None:
        """Count again in a thread, when something came since and the last count is long enough ago."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or spans == self._counted or spans > MOST_SPANS or time.monotonic() < self._due:
            return
        self._counted = spans
        self._thread = threading.Thread(target=self._count, name="hicachectl-findings", daemon=True)
        self._thread.start()

    @staticmethod
    def judges(spans: int) -> bool:
        """Whether a recording of so many SPANS is judged beside the engine."""
        return spans <= MOST_SPANS

    def finish(self, spans: int) -> None:
        """Count a last time, unless the recording is too large for it."""
        if self._thread is not None:
            self._thread.join()
        if spans != self._counted and spans <= MOST_SPANS:
            self._count()
        elif spans > MOST_SPANS:
            self.levels = None

    def _count(self) -> None:
        begun = time.monotonic()
        try:
            from hicachectl.diagnosis.run import diagnose  # noqa: PLC0415 - only once an engine is there

            found = diagnose(store.read([self._folder]))
            self._settle(found)
        except Exception:  # noqa: BLE001 - a count that fails must not end a recording; `explain` will say why
            self.levels = None
        else:
            self.levels = dict(Counter(one.level for one in found.findings))
        self._due = time.monotonic() + max(_LEAST_PAUSE_S, _SHARE * (time.monotonic() - begun))

    def _settle(self, found: "Diagnosis") -> None:
        """Count the losses of requests that have finished since: a code may change while its request runs."""
        for judged in found.requests:
            attempt = judged.journey.attempt
            key = (attempt.engine.id, attempt.rid, attempt.number)
            if key not in self._settled and attempt.last(v.REQUEST_FINISHED) is not None:
                self._settled.add(key)
                for loss in judged.lost:
                    self.lost[attempt.engine.id, loss.code] += loss.tokens
