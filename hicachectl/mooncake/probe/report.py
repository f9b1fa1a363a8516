"""What a probe found, as plain data: the fields of `probe -o json`."""

import math
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "hicachectl/probe/1"


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step over all its calls. `code` is the first bad code, else the code that is right; None where no answer came."""

    name: str
    ok: bool
    code: int | None
    code_name: str
    n: int
    """Objects asked for, 1 where the call is about none."""
    calls: int
    bytes: int
    p50_ms: float | None
    p99_ms: float | None
    gb_per_s: float | None
    """Bytes of a call over its median time, in units of 10^9."""
    meaning: str
    next: str = ""


@dataclass(frozen=True, slots=True)
class NotRun:
    """A step that was not tried, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Bench:
    """Bandwidth of one kind of call in the probe's steps and in a bare loop of the same calls, in the same client: the fastest round of each.

    The fastest, because on a machine with other work a median says more about that work than about the probe.
    """

    step: str
    bytes: int
    """Of one call, in both."""
    seconds: tuple[float, ...]
    """The probe's calls, one a round."""
    bare_seconds: tuple[float, ...]
    """The bare loop's calls of the same rounds."""

    @property
    def gb_per_s(self) -> float:
        """The probe's fastest round."""
        return round(self.bytes / min(self.seconds) / 1e9, 4)

    @property
    def bare_gb_per_s(self) -> float:
        """The bare loop's fastest round."""
        return round(self.bytes / min(self.bare_seconds) / 1e9, 4)

    @property
    def ratio(self) -> float:
        """The probe's share of the bare loop."""
        return min(self.bare_seconds) / min(self.seconds)

    def described(self) -> dict[str, Any]:
        """The row of the document: the rounds as a number."""
        return {
            "step": self.step,
            "gb_per_s": self.gb_per_s,
            "bare_gb_per_s": self.bare_gb_per_s,
            "ratio": round(self.ratio, 3),
            "bytes": self.bytes,
            "rounds": len(self.seconds),
        }


@dataclass(slots=True)
class Report:
    """A whole probe."""

    store: dict[str, Any]
    steps: list[StepResult] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)
    side_effects: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    bench: list[Bench] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    connected: bool = False
    put: int = 0
    """Own objects that the store was asked to take."""
    unfinished: int | None = None
    """A process that still waits for a put of its own (`Session.unfinished`)."""

    @property
    def failed(self) -> list[StepResult]:
        """The steps that were not right."""
        return [step for step in self.steps if not step.ok]

    def document(self) -> dict[str, Any]:
        """The one JSON document of `probe -o json`."""
        return {
            "schema": SCHEMA,
            "store": self.store,
            "steps": [_fields(step) for step in self.steps],
            "not_run": [_fields(row) for row in self.not_run],
            "side_effects": self.side_effects,
            "left_behind": self.left_behind,
            "bench": [row.described() for row in self.bench],
            "log": self.log,
        }


def percentile(seconds: list[float], share: float) -> float:
    """The value at SHARE (0..1) of the sorted seconds, nearest rank."""
    ordered = sorted(seconds)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
