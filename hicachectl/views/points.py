"""Hook points as a table and as a JSON document: what each reads, and with a recording what it saw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from rich.text import Text

from hicachectl.store import Ledger, LedgerPoint
from hicachectl.views import palette
from hicachectl.views.table import Column, cell, document, table
from tracers.point import Point, Target

ROWS = (
    Column("POINT"),
    Column("LAYER"),
    Column("SPAN"),
    Column("READS", grows=True),
    Column("TARGET", grows=True),
)
SEEN = (
    Column("STATE"),
    Column("POINT"),
    Column("CALLS", number=True),
    Column("SPANS", number=True),
    Column("FAULTS", number=True),
    Column("PROCESS"),
    Column("TARGET", grows=True),
    Column("DETAIL", grows=True),
)
ORDER = ("missing", "changed", "retired", "blind", "waiting", "installed")
"""States by how much they need to be looked at."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One hook point in one process."""

    state: str
    ledger: Ledger
    point: LedgerPoint


def in_order(ledgers: Iterable[Ledger]) -> list[Ledger]:
    """Processes that run a scheduler first, then by their start; those in which no point landed are left out."""
    told = [one for one in ledgers if one.scheduler or one.installed or one.written]
    return sorted(told, key=lambda one: (not one.scheduler, one.start_ms, one.engine))


def said(ledger: Ledger) -> list[str]:
    """One process in a few sentences: what is on, what is not, what was written and lost, and what went wrong."""
    states = [f"{len(ids)} {state}" for state in ORDER[:4] if (ids := ledger.ids(state))]
    points = ", ".join([f"{ledger.installed} points on", *states])
    counted = f"{ledger.engine}: {points}; {ledger.written} spans written, {ledger.dropped} dropped"
    if ledger.export is not None:
        waiting = f", {ledger.export.waiting} waited when it last told" if ledger.export.waiting else ""
        unsampled = f", {ledger.export.unsampled} not sampled" if ledger.export.unsampled else ""
        counted += f"; {ledger.export.sent} sent to the collector, {ledger.unsent} did not reach it{unsampled}{waiting}"
    return [counted, *(f"{ledger.engine}: fault: {fault}" for fault in ledger.faults)]


def seen(ledgers: Iterable[Ledger]) -> list[Seen]:
    """A row for each point and process: missing and changed ones first, then those with faults.

    A process that runs no scheduler is told of only where a point landed in it.
    """
    rows = [row for ledger in ledgers for row in _of(ledger) if ledger.scheduler or row.state != "waiting"]
    return sorted(rows, key=_urgency)


def rows(points: Sequence[Point], *, width: int | None, colour: bool) -> str:
    """POINTS as a table: what each reads, and where."""
    cells = (
        [
            point.id,
            point.layer,
            point.span,
            point.doc,
            "\n".join(_target(one) for one in point.targets) if width else _targets(point),
        ]
        for point in points
    )
    return table(ROWS, ([*row[:-1], Text(str(row[-1]))] for row in cells), width=width, colour=colour)


def seen_rows(found: Sequence[Seen], *, width: int | None, colour: bool) -> str:
    """What the processes of a recording saw, as a table."""
    return table(SEEN, (_cells(row) for row in found), width=width, colour=colour)


def points_document(points: Sequence[Point], runs: Sequence[str], ledgers: Sequence[Ledger]) -> str:
    """POINTS, and what the processes of RUNS saw, as the JSON document."""
    body: dict[str, object] = {
        "points": [_point(point) for point in points],
        "run": runs[0] if runs else None,
        "processes": [_process(ledger) for ledger in ledgers],
    }
    return document("points", body)


def _of(ledger: Ledger) -> Iterable[Seen]:
    """One row a point: its installed target where there is one, else the target that says most."""
    best: dict[str, LedgerPoint] = {}
    for point in ledger.points:
        before = best.get(point.id)
        if before is None or _says_more(point, before):
            best[point.id] = point
    for point in best.values():
        yield Seen(point.state, ledger, point)


def _says_more(point: LedgerPoint, other: LedgerPoint) -> bool:
    rank = ("retired", "changed", "blind", "installed", "missing", "waiting")
    return _place(rank, point.state) < _place(rank, other.state)


def _urgency(row: Seen) -> tuple[int, int, str, str]:
    return (_place(ORDER, row.state), -row.point.faults, row.point.id, row.ledger.engine)


def _place(order: Sequence[str], state: str) -> int:
    return order.index(state) if state in order else len(order)


def _cells(row: Seen) -> list[object]:
    point = row.point
    faults = Text(str(point.faults), palette.ERROR if point.faults else "")
    state = cell(row.state, palette.STATES.get(row.state, ""))
    process = f"{row.ledger.host}:{row.ledger.pid}"
    return [state, point.id, point.calls, point.spans, faults, process, point.target or None, point.detail or None]


def _target(target: Target) -> str:
    until = f", before {target.until}" if target.until else ""
    return f"{target.path} ({target.package} {target.since} and later{until})"


def _targets(point: Point) -> str:
    return "; ".join(_target(one) for one in point.targets)


def _point(point: Point) -> dict[str, object]:
    return {
        "id": point.id,
        "layer": point.layer,
        "span": point.span,
        "reads": point.doc,
        "attributes": list(point.attributes),
        "rungs": list(point.rungs),
        "targets": [
            {
                "path": target.path,
                "params": list(target.params),
                "package": target.package,
                "since": target.since,
                "until": target.until or None,
            }
            for target in point.targets
        ],
    }


def _process(ledger: Ledger) -> dict[str, object]:
    return {
        "engine": ledger.engine,
        "scheduler": ledger.scheduler,
        "sglang": ledger.versions.get("sglang") or None,
        "mooncake": ledger.versions.get("mooncake") or None,
        "closed": ledger.closed,
        "installed": ledger.installed,
        "missing": ledger.ids("missing"),
        "changed": ledger.ids("changed"),
        "retired": ledger.ids("retired"),
        "waiting": ledger.ids("waiting"),
        "written": ledger.written,
        "dropped": ledger.dropped,
        "export": msgspec.to_builtins(ledger.export),
        "faults": ledger.faults,
        "points": [
            {
                "id": point.id,
                "target": point.target,
                "state": point.state,
                "detail": point.detail,
                "calls": point.calls,
                "spans": point.spans,
                "faults": point.faults,
            }
            for point in ledger.points
        ],
    }
