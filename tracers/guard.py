"""Where faults of our own end: counts them, says each kind once, retires a point that keeps failing, is loud under test."""

import logging
import os
import threading

LIMIT = 5
"""Faults after which a point is retired."""
MOST_TEXTS = 32

logger = logging.getLogger("hicachectl.tracers")


class Guard:
    """Counts the faults of each hook point, and of the writer, in this process."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.loud = os.environ.get("HICACHECTL_LOUD") == "1"
        self.renew()

    def renew(self) -> None:
        """Start afresh, as in a forked child."""
        self.faults: dict[str, int] = {}
        self.texts: list[str] = []
        self.retired: set[str] = set()
        self._lock = threading.Lock()

    def fault(self, where: str, error: BaseException, *, retires: bool = True) -> bool:
        """Count ERROR against a point, or against another place that cannot be retired; whether it is retired now. Raises only under test."""
        retired = False
        try:
            with self._lock:
                count = self.faults.get(where, 0) + 1
                self.faults[where] = count
                if retires and count >= self.limit:
                    self.retired.add(where)
                    retired = True
                if count == 1 and len(self.texts) < MOST_TEXTS:
                    self.texts.append(f"{where}: {type(error).__name__}: {_text(error)}")
            if count == 1:
                logger.warning("hook point %s failed (%s); the engine is not affected", where, type(error).__name__)
        except Exception:  # noqa: BLE001, S110 - the last line of defence of somebody's serving process
            pass
        if self.loud:
            raise error
        return retired

    @property
    def total(self) -> int:
        """All faults so far."""
        return sum(self.faults.values())


def _text(error: BaseException) -> str:
    try:
        return str(error)[:160]
    except Exception:  # noqa: BLE001 - an exception of a foreign class may not even be printable
        return "?"
