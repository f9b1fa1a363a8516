"""Hook points as text."""

import json

from hicachectl.store import Ledger, LedgerPoint
from hicachectl.store.ledger import Export
from hicachectl.views import points as view


def ledger(*points: LedgerPoint, scheduler: bool = True, pid: int = 1) -> Ledger:
    """The ledger of a process."""
    return Ledger(engine=f"h:{pid}:2", host="h", pid=pid, scheduler=scheduler, points=list(points))


def test_missing_and_changed_points_come_first() -> None:
    """What needs to be looked at is on top; points with faults lead their state."""
    rows = view.seen(
        [
            ledger(
                LedgerPoint("a", state="installed"),
                LedgerPoint("b", state="waiting"),
                LedgerPoint("c", state="installed", faults=2),
                LedgerPoint("d", state="changed"),
                LedgerPoint("e", state="missing"),
                LedgerPoint("f", state="retired"),
            )
        ]
    )
    assert [row.point.id for row in rows] == ["e", "d", "f", "b", "c", "a"]


def test_a_point_with_several_targets_is_one_row() -> None:
    """Two classes may carry a point; the one that is there counts."""
    rows = view.seen(
        [ledger(LedgerPoint("a", "x", "missing"), LedgerPoint("a", "y", "installed"), LedgerPoint("a", "z", "waiting"))]
    )
    assert [(row.point.target, row.state) for row in rows] == [("y", "installed")]


def test_a_process_without_a_scheduler_shows_only_what_landed() -> None:
    """A tokenizer waits for modules that it will never import: that is not worth a row."""
    rows = view.seen([ledger(LedgerPoint("a", state="waiting"), LedgerPoint("b", state="installed"), scheduler=False)])
    assert [row.point.id for row in rows] == ["b"]


def test_a_process_is_summed_up_in_sentences() -> None:
    """What is on, what is not, what was written and lost; then each fault."""
    told = ledger(LedgerPoint("a", state="installed"), LedgerPoint("b", state="missing"))
    told.faults = ["x broke"]
    assert view.said(told) == ["h:1:2: 1 points on, 1 missing; 0 spans written, 0 dropped", "h:1:2: fault: x broke"]


def test_what_a_collector_got_is_said() -> None:
    """Sent, not arrived, and what waited when a killed process last told; JSON has the same."""
    told = ledger(LedgerPoint("a", state="installed"))
    told.export = Export(sent=64, dropped=5, waiting=2)
    assert view.said(told) == ["h:1:2: 1 points on; 0 spans written, 0 dropped; 64 sent to the collector, 5 did not reach it, 2 waited when it last told"]
    process = json.loads(view.points_document([], ["/r"], [told]))["processes"][0]
    assert process["export"] == {"sent": 64, "dropped": 5, "waiting": 2, "unsampled": 0}
