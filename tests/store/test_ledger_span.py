"""The ledger as a span: what is written of it is what is read, wherever it went in between."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from recordings import EPOCH_MS, Recording

from hicachectl import store
from hicachectl.store import ledger as ledgers
from hicachectl.store import ledger_lines as lines
from hicachectl.store.ledger import Export, Ledger, LedgerPoint
from hicachectl.store.lines import Decoder
from tracers import vocabulary as v

STATES = ("installed", "missing", "changed", "retired", "waiting", "absent")
POINTS = st.lists(
    st.builds(LedgerPoint, id=st.sampled_from("abcd"), target=st.sampled_from("xyz"), state=st.sampled_from(STATES), faults=st.integers(0, 1)),
    unique_by=lambda point: (point.id, point.target),
)
LEDGERS = st.builds(
    Ledger,
    engine=st.just("h:7:5"),
    host=st.just("h"),
    pid=st.just(7),
    start_ms=st.just(5),
    versions=st.just({"sglang": "0.5.14", "mooncake": None}),
    scheduler=st.booleans(),
    points=POINTS,
    dropped=st.integers(0, 9),
    written=st.integers(0, 9),
    detail_dropped=st.integers(0, 9),
    closed=st.booleans(),
    ppid=st.integers(0, 9),
    seen_ms=st.integers(1, 9),
    ended_ms=st.none() | st.integers(1, 9),
    export=st.none() | st.builds(Export, dropped=st.integers(0, 9)),
)


def same(one: Ledger, other: Ledger) -> bool:
    """Whether two ledgers say the same to those who judge a recording."""
    alone = ("engine", "host", "pid", "start_ms", "versions", "scheduler", "dropped", "written", "detail_dropped", "closed")
    also = ("ppid", "seen_ms", "ended_ms", "export", "installed", "faulty", "unsent", "recording_version")
    states = ("missing", "changed", "retired", "waiting")
    return all(getattr(one, name) == getattr(other, name) for name in (*alone, *also)) and all(one.ids(state) == other.ids(state) for state in states)


@given(LEDGERS)
def test_a_ledger_survives_being_a_span(told: Ledger) -> None:
    """Everything that a verdict rests on comes back, and what it says of its points."""
    decoder = Decoder()
    (span,) = decoder.spans(lines.line(told, {}))
    assert same(ledgers.from_span(span, decoder.resources[told.engine], scheduler=False), told)


def test_the_ledger_that_was_told_last_counts(tmp_path: Path) -> None:
    """Spans of a collector come in any order; one without a time, as early recordings have them, comes before those with one."""
    made = Recording()
    engine = made.engine(pid=7, scheduler=False).without_ledger()
    for at, seen, written in ((1, EPOCH_MS + 9, 3), (2, EPOCH_MS + 5, 2), (3, None, 1)):
        engine.span(v.LEDGER, at, attributes={v.SEEN: seen, v.WRITTEN: written, v.SCHEDULER: True})
    found = store.read([made.write(tmp_path / "run")]).ledgers[engine.id]
    assert (found.written, found.scheduler) == (3, True)
