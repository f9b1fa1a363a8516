"""What this process did and did not see: installed, missing, changed, waiting, retired, dropped."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracers import vocabulary as v
from tracers.around import Recorder

INSTALLED, MISSING, CHANGED, WAITING, RETIRED = "installed", "missing", "changed", "waiting", "retired"


@dataclass(slots=True)
class Landing:
    """How one target of a point landed in this process."""

    point: str
    target: str
    state: str
    detail: str = ""


@dataclass(slots=True)
class Ledger:
    """The landings of every target, and what the recorder counted."""

    recorder: Recorder
    landings: dict[tuple[str, str], Landing] = field(default_factory=dict)
    scheduler: bool = False
    closed: bool = False
    written: int = 0
    lost: int = 0
    """Spans that were rotated out or that a full disk refused."""

    def land(self, point: str, target: str, state: str, detail: str = "") -> None:
        """Say how a target landed."""
        self.landings[(point, target)] = Landing(point, target, state, detail)

    def ids(self, state: str) -> list[str]:
        """Points with a target in STATE; a point counts as missing or waiting only when none of its targets is installed."""
        if state == RETIRED:
            return sorted(self.recorder.guard.retired)
        by_point: dict[str, set[str]] = {}
        for landing in self.landings.values():
            by_point.setdefault(landing.point, set()).add(landing.state)
        if state in (INSTALLED, CHANGED):
            return sorted(point for point, states in by_point.items() if state in states)
        return sorted(point for point, states in by_point.items() if state in states and not states & {INSTALLED, CHANGED})

    @property
    def dropped(self) -> int:
        """Spans that never reached the file."""
        return self.recorder.queue.dropped + self.lost

    def attributes(self) -> list[tuple[str, Any]]:
        """The facts as attributes of a LEDGER span."""
        return [
            (v.POINTS_INSTALLED, len(self.ids(INSTALLED))),
            (v.POINTS_MISSING, self.ids(MISSING) or None),
            (v.POINTS_CHANGED, self.ids(CHANGED) or None),
            (v.POINTS_WAITING, self.ids(WAITING) or None),
            (v.POINTS_RETIRED, self.ids(RETIRED) or None),
            (v.POINTS_FAULTS, self.recorder.guard.total),
            (v.DROPPED, self.dropped),
            (v.WRITTEN, self.written),
            (v.CLOSED, self.closed),
        ]

    def document(self, identity: dict[str, Any]) -> dict[str, Any]:
        """The facts as the ledger's file."""
        recorder, retired = self.recorder, self.recorder.guard.retired
        return {
            **identity,
            "scheduler": self.scheduler,
            "points": [
                {
                    "id": landing.point,
                    "target": landing.target,
                    "state": RETIRED if landing.point in retired and landing.state == INSTALLED else landing.state,
                    "detail": landing.detail,
                    "calls": recorder.calls.get(landing.point, 0),
                    "spans": recorder.spans.get(landing.point, 0),
                    "faults": recorder.guard.faults.get(landing.point, 0),
                }
                for _, landing in sorted(self.landings.items())
            ],
            "dropped": self.dropped,
            "written": self.written,
            "detail_dropped": recorder.queue.detail_dropped,
            "closed": self.closed,
            "faults": list(recorder.guard.texts),
        }


def write(path: Path, document: dict[str, Any]) -> None:
    """Replace PATH by DOCUMENT in one step, so that a reader never sees half a ledger."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
