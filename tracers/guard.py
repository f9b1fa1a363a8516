"""The only broad `except`: counts a fault of ours, says it once, retires a point that keeps failing, is loud under test."""

import logging
import os
import threading

LIMIT = 5
"""Faults after which a point is retired."""

logger = logging.getLogger("hicachectl.tracers")


class Guard:
    """Counts the faults of each hook point in this process."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.faults: dict[str, int] = {}
        self.texts: list[str] = []
        self.retired: set[str] = set()
        self.loud = os.environ.get("HICACHECTL_LOUD") == "1"
        self._lock = threading.Lock()

    def fault(self, point_id: str, error: Exception) -> None:
        """Count ERROR against a point; after `limit` of them the point is retired. Raises only under test."""
        try:
            with self._lock:
                count = self.faults.get(point_id, 0) + 1
                self.faults[point_id] = count
                if count >= self.limit:
                    self.retired.add(point_id)
                if count == 1 and len(self.texts) < 32:
                    self.texts.append(f"{point_id}: {type(error).__name__}: {str(error)[:160]}")
            if count == 1:
                logger.warning("hook point %s failed (%s); the engine is not affected", point_id, type(error).__name__)
        except Exception:  # noqa: BLE001, S110 - the last line of defence of somebody's serving process
            pass
        if self.loud:
            raise error

    @property
    def total(self) -> int:
        """All faults so far."""
        return sum(self.faults.values())
