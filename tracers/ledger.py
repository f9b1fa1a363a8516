"""What this process did and did not see: installed, missing, changed, waiting, retired, dropped."""

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tracers import vocabulary as v
from tracers.around import Recorder

INSTALLED, MISSING, CHANGED, WAITING, RETIRED, BLIND = "installed", "missing", "changed", "waiting", "retired", "blind"
GETS = "mooncake.batch_get"
"""The point that sees gets begin and return."""
START = "engine.start"
"""The point that a scheduler passes first."""
BLOCK = 4096
SPARE = 8192
"""Bytes of blanks behind a ledger, at least: room for what a full disk adds to it."""
ABSENT = "absent"
"""A target that this version need not have: another shape of it, or a class that this process does not use."""

OTHER_TREES = {"HiRadixCache": frozenset({"UnifiedRadixCache"}), "UnifiedRadixCache": frozenset({"HiRadixCache", "RadixCache"})}
"""Class of the prefix tree in use -> classes that it has nothing of."""


@dataclass(slots=True)
class Landing:
    """How one target of a point landed in this process."""

    point: str
    target: str
    state: str
    detail: str = ""


@dataclass(slots=True)
class Export:
    """What became of the spans that a collector was to get as well."""

    sent: int = 0
    dropped: int = 0
    """Spans that did not fit into the queue, that the collector refused, or that were left at the end."""
    waiting: int = 0
    """Spans that wait, or are under way."""
    unsampled: int = 0
    """Spans that the sampler keeps from the collector."""

    def document(self) -> dict[str, int]:
        """The counts; that of a sampler where there is one."""
        return {name: count for name, count in asdict(self).items() if count or name != "unsampled"}


@dataclass(slots=True)
class Ledger:
    """The landings of every target, and what the recorder counted."""

    recorder: Recorder
    landings: dict[tuple[str, str], Landing] = field(default_factory=dict)
    scheduler: bool = False
    tree: str | None = None
    """Class of the prefix tree in use, once known."""
    closed: bool = False
    written: int = 0
    """Spans that the files hold."""
    lost: int = 0
    """Spans that were rotated out, that a full disk refused, or that could not be encoded."""
    ended_ms: int | None = None
    ends_ms: list[int] = field(default_factory=list)
    """Every time at which this process ended its schedulers: it may start some anew."""
    attached_ms: int | None = None
    """When the tracers were switched on, where this process had been running already."""
    news: bool = False
    """Whether a target has landed that the file does not tell of yet."""
    """When this process ended its schedulers."""
    export: Export | None = None
    """What became of the spans that a collector was to get; None where there is none."""
    running: Callable[[], list[str]] = list
    """Tells the gets that hang."""

    _landed: int = 0
    _states: tuple[Any, dict[tuple[str, str], str]] | None = None

    @property
    def is_scheduler(self) -> bool:
        """Whether this process builds a scheduler, though the reader that would say so may have failed."""
        return self.scheduler or START in self.recorder.guard.faults

    @property
    def hanging(self) -> list[str]:
        """The gets that hang; none where the reader that sees them return has failed, for those would never seem to."""
        return [] if GETS in self.recorder.guard.faults else self.running()

    def renew(self) -> None:
        """Start afresh, as in a forked child, which has the wrappers and did nothing yet."""
        self.scheduler = self.closed = False
        self.tree = None
        self.written = self.lost = 0
        self.ended_ms = None
        self.ends_ms = []

    def end(self, now_ms: int) -> None:
        """Say that this process ends its schedulers now."""
        self.ended_ms = now_ms
        self.ends_ms.append(now_ms)

    def land(self, point: str, target: str, state: str, detail: str = "") -> None:
        """Say how a target landed."""
        self.landings[(point, target)] = Landing(point, target, state, detail)
        self.news = True
        self._landed += 1

    def state(self, point: str, target: str) -> str | None:
        """How a target landed so far."""
        landing = self.landings.get((point, target))
        return landing.state if landing is not None else None

    def _told(self) -> dict[tuple[str, str], str]:
        """The state to tell of each target, by its landing; asked every second, so it is worked out when it has changed."""
        known = (self._landed, self.tree, len(self.recorder.guard.retired))
        if self._states is None or self._states[0] != known:
            # Whether this release was not surveyed and some shape of the point's target is not there: what another class has proves nothing.
            guessed = {landing.point for landing in self.landings.values() if landing.state == ABSENT}
            self._states = known, {key: self._state_of(landing, guessed) for key, landing in self.landings.items()}
        return self._states[1]

    def _state_of(self, landing: Landing, guessed: set[str]) -> str:
        """What a class that is not in use lacks is no loss."""
        owner = landing.target.partition(":")[2].partition(".")[0]
        unused = owner in OTHER_TREES.get(self.tree or "", ())
        if unused and (landing.state in (MISSING, CHANGED) or landing.point in guessed):
            return ABSENT
        return RETIRED if landing.state in (INSTALLED, BLIND) and landing.point in self.recorder.guard.retired else landing.state

    def ids(self, state: str) -> list[str]:
        """Points with a target in STATE; waiting is a point only when none of its targets is there, missing also when all are absent."""
        by_point: dict[str, set[str]] = {}
        for (point, _), told in self._told().items():
            by_point.setdefault(point, set()).add(told)
        there = {INSTALLED, CHANGED, RETIRED, BLIND}
        if state == WAITING:
            return sorted(point for point, states in by_point.items() if state in states and not states & there)
        found = {point for point, states in by_point.items() if state in states}
        if state == MISSING:
            found |= {point for point, states in by_point.items() if states == {ABSENT}}
        return sorted(found)

    @property
    def dropped(self) -> int:
        """Spans that are not in the files, for whatever reason."""
        return self.recorder.queue.dropped + self.lost

    def attributes(self) -> list[tuple[str, Any]]:
        """The facts as attributes of a LEDGER span."""
        return [
            (v.POINTS_INSTALLED, len(self.ids(INSTALLED))),
            (v.POINTS_MISSING, self.ids(MISSING) or None),
            (v.POINTS_CHANGED, self.ids(CHANGED) or None),
            (v.POINTS_WAITING, self.ids(WAITING) or None),
            (v.POINTS_RETIRED, self.ids(RETIRED) or None),
            (v.POINTS_BLIND, self.ids(BLIND) or None),
            (v.POINTS_FAULTY, sorted({point for point, _ in self.landings} & self.recorder.guard.faults.keys()) or None),
            (v.POINTS_FAULTS, self.recorder.guard.total),
            (v.DROPPED, self.dropped),
            (v.WRITTEN, self.written),
            (v.CLOSED, self.closed),
            (v.SCHEDULER, self.is_scheduler),
            (v.PARENT_PID, os.getppid()),
            (v.SEEN, time.time_ns() // 1_000_000),
            (v.ENDED, self.ended_ms),
            (v.ATTACHED, self.attached_ms),
            (v.DETAIL_DROPPED, self.recorder.queue.detail_dropped),
            (v.EXPORT_DROPPED, self.export.dropped if self.export else None),
            (v.EXPORT_UNSAMPLED, (self.export.unsampled or None) if self.export else None),
            (v.RUNNING, self.hanging or None),
        ]

    def document(self, identity: dict[str, Any]) -> dict[str, Any]:
        """The facts as the ledger's file."""
        recorder, calls, told = self.recorder, self.recorder.calls, self._told()
        return {
            **identity,
            "scheduler": self.is_scheduler,
            "tree": self.tree,
            "attached_ms": self.attached_ms,
            "points": [
                {
                    "id": landing.point,
                    "target": landing.target,
                    "state": told[key],
                    "detail": landing.detail,
                    "calls": calls.get(landing.point, 0),
                    "spans": recorder.spans.get(landing.point, 0),
                    "faults": recorder.guard.faults.get(landing.point, 0),
                }
                for key, landing in sorted(self.landings.items())
            ],
            "dropped": self.dropped,
            "written": self.written,
            "detail_dropped": recorder.queue.detail_dropped,
            "export": self.export.document() if self.export else None,
            "running": self.hanging,
            "closed": self.closed,
            "faults": list(recorder.guard.texts),
        }


def write(path: Path, document: dict[str, Any]) -> None:
    """Replace PATH by DOCUMENT in one step, so that a reader never sees half a ledger; OSError leaves the old one.

    On a disk that is full there is no room for a second file: the old one is written over, which takes no more of the disk than it has.
    """
    temporary = path.with_suffix(".tmp")
    # A line for each field: indentation throughout would have the slow encoder do it, once a second.
    fields = ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    text = f"{{{fields}}}\n".encode()
    try:
        temporary.write_bytes(text.ljust(-(-(len(text) + SPARE) // BLOCK) * BLOCK))
        temporary.replace(path)
    except OSError as fault:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT) or not _over(path, text):
            raise


def _over(path: Path, text: bytes) -> bool:
    """Write TEXT over what PATH holds, where it is long enough; whether it was."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(file).st_size
        return len(text) <= size == os.pwrite(file, text.ljust(size), 0)
    except OSError:
        return False
    finally:
        os.close(file)
