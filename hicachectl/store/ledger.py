"""What one process did and did not see: its ledger, from the file or from the span that repeats it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hicachectl.store.span import UNREADABLE, Span, Value
from hicachectl.whole import whole
from tracers import vocabulary as v

INSTALLED, CHANGED, RETIRED, BLIND = "installed", "changed", "retired", "blind"
STATES: dict[str, str] = {
    v.POINTS_MISSING: "missing",
    v.POINTS_CHANGED: "changed",
    v.POINTS_RETIRED: "retired",
    v.POINTS_BLIND: "blind",
    v.POINTS_WAITING: "waiting",
    v.POINTS_FAULTY: "faulty",
}
"""Attribute of the ledger's span that lists points -> the state of those points."""


_SEEN_LATE_MS = 5000
"""A child's ledger is rewritten every second; one that was not for this long had died before its parent ended it."""


class LedgerPoint(Struct):
    """One target of a hook point in one process: where it landed, and what the point counted."""

    id: str
    target: str = ""
    state: str = ""
    detail: str = ""
    calls: int = 0
    spans: int = 0
    faults: int = 0


class Export(Struct):
    """What became of the spans that a collector was to get as well."""

    sent: int = 0
    dropped: int = 0
    waiting: int = 0
    unsampled: int = 0
    """Spans that the sampler keeps from the collector."""


class Ledger(Struct):
    """The ledger of one process; `closed` where the process ended in order."""

    engine: str = ""
    host: str = ""
    pid: int = 0
    start_ms: int = 0
    versions: dict[str, str | None] = {}
    scheduler: bool = False
    tree: str | None = None
    """Class of the prefix tree in use."""
    points: list[LedgerPoint] = []
    dropped: int = 0
    written: int = 0
    detail_dropped: int = 0
    closed: bool = False
    faults: list[str] = []
    running: list[str] = []
    """Gets that had not returned after a second: start in ms, request id, first object key."""
    recording_version: int = v.RECORDING_VERSION
    ppid: int = 0
    seen_ms: int = 0
    """When the process last wrote this ledger."""
    ended_ms: int | None = None
    ends_ms: list[int] = []
    """When this process ended its schedulers: they are killed, and cannot close their own ledgers."""
    attached_ms: int | None = None
    """When the tracers were switched on, where the process had been running already; it may go on after `closed`."""
    export: Export | None = None
    """Where a collector was to get the spans as well."""
    counted: int | None = None
    """Installed points, where the points themselves are not listed (a ledger that was read from its span)."""

    @property
    def installed(self) -> int:
        """How many hook points are on."""
        if self.counted is not None:
            return self.counted
        return len(self.ids(INSTALLED))

    def ids(self, state: str) -> list[str]:
        """Ids of the points with a target in STATE, sorted; waiting is a point only when none of its targets is there."""
        found = {point.id for point in self.points if point.state == state}
        if state == "waiting":
            found -= {point.id for point in self.points if point.state in (INSTALLED, CHANGED, RETIRED, BLIND)}
        elif state == "missing":
            # Between surveyed releases each shape of a target may be the one; a point of which none is there is missing.
            found |= {point.id for point in self.points} - {
                point.id for point in self.points if point.state != "absent"
            }
        return sorted(found)

    @property
    def unsent(self) -> int:
        """Spans that are known not to have reached the collector that was to get them."""
        return self.export.dropped if self.export is not None else 0

    @property
    def faulty(self) -> list[str]:
        """Points of which a reader failed at least once, so that a span of theirs may be absent."""
        return sorted({point.id for point in self.points if point.faults or point.state == "faulty"})

    def ended_by(self, others: Iterable["Ledger"]) -> bool:
        """Whether the parent, among OTHERS, ended this process in order while it still wrote its ledger."""
        for other in others:
            ours = other.pid == self.ppid and other.host == self.host and other.start_ms <= self.start_ms
            ends = {*other.ends_ms, *([other.ended_ms] if other.ended_ms is not None else [])}
            if ours and any(self.start_ms <= end <= self.seen_ms + _SEEN_LATE_MS for end in ends):
                return True
        return False


_decode = msgspec.json.Decoder(Ledger, strict=False).decode


def from_file(path: Path) -> Ledger | None:
    """The ledger in PATH; None where it cannot be read."""
    try:
        ledger = _decode(path.read_bytes())
    except (OSError, *UNREADABLE):
        return None
    if not ledger.engine:
        ledger.engine = f"{ledger.host}:{ledger.pid}:{ledger.start_ms}"
    return ledger


def from_span(span: Span, resource: dict[str, Value], scheduler: bool) -> Ledger:
    """The ledger that SPAN repeats; RESOURCE is that of its engine."""
    told, export_dropped = span.attributes, span.attributes.get(v.EXPORT_DROPPED)
    points = [LedgerPoint(id=str(name), state=state) for key, state in STATES.items() for name in _names(told.get(key))]
    return Ledger(
        engine=span.engine,
        host=str(resource.get(v.R_HOST, "")),
        pid=_int(resource.get(v.R_PID)),
        start_ms=_start_of(span.engine),
        versions={"sglang": _text(resource.get(v.R_SGLANG)), "mooncake": _text(resource.get(v.R_MOONCAKE))},
        scheduler=scheduler or told.get(v.SCHEDULER) is True,
        points=points,
        dropped=_int(told.get(v.DROPPED)),
        written=_int(told.get(v.WRITTEN)),
        closed=told.get(v.CLOSED) is True,
        recording_version=_int(resource.get(v.R_VERSION), v.RECORDING_VERSION),
        counted=_int(told.get(v.POINTS_INSTALLED)),
        ppid=_int(told.get(v.PARENT_PID)),
        seen_ms=_int(told.get(v.SEEN)),
        ended_ms=_int(told[v.ENDED]) if v.ENDED in told else None,
        attached_ms=_int(told[v.ATTACHED]) if v.ATTACHED in told else None,
        detail_dropped=_int(told.get(v.DETAIL_DROPPED)),
        running=[str(each) for each in _names(told.get(v.RUNNING))],
        export=None if export_dropped is None else Export(dropped=_int(export_dropped), unsampled=_int(told.get(v.EXPORT_UNSAMPLED))),
    )


def attributes(ledger: Ledger) -> dict[str, Value | None]:
    """LEDGER as the attributes of a span that repeats it: what `from_span` reads."""
    told: dict[str, Value | None] = {
        v.POINTS_INSTALLED: ledger.installed,
        **{key: list[Any](ledger.ids(state)) for key, state in STATES.items()},
        v.POINTS_FAULTY: list[Any](ledger.faulty),
        v.DROPPED: ledger.dropped,
        v.WRITTEN: ledger.written,
        v.CLOSED: ledger.closed,
        v.SCHEDULER: ledger.scheduler,
        v.PARENT_PID: ledger.ppid,
        v.SEEN: ledger.seen_ms,
        v.ENDED: ledger.ended_ms,
        v.ATTACHED: ledger.attached_ms,
        v.DETAIL_DROPPED: ledger.detail_dropped,
        v.EXPORT_DROPPED: ledger.unsent if ledger.export is not None else None,
        v.EXPORT_UNSAMPLED: (ledger.export.unsampled or None) if ledger.export is not None else None,
        v.RUNNING: list[Any](ledger.running),
    }
    return {key: value for key, value in told.items() if value is not None and value != []}


def copy_id(told: Ledger) -> str:
    """Span id of the span that stands for the ledger file of TOLD where there are no files: the same ledger gives the same span."""
    return hashlib.sha256(f"{told.engine} {told.seen_ms} {told.written}".encode()).hexdigest()[:16]


def latest(one: Ledger | None, other: Ledger) -> Ledger:
    """The one that was told later; what does not say when, as the spans of early recordings, comes before what does."""
    return other if one is None or (one.seen_ms, one.written) <= (other.seen_ms, other.written) else one


def _names(value: Value | None) -> list[Value]:
    return value if isinstance(value, list) else []


def _text(value: Value | None) -> str | None:
    return None if value is None else str(value)


def _int(value: Value | None, default: int = 0) -> int:
    if isinstance(value, int):
        return value
    found = whole(value) if isinstance(value, str) else None
    return default if found is None else found


def _start_of(engine: str) -> int:
    return whole(engine.rpartition(":")[2]) or 0
