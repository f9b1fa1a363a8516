"""What a blind hook point costs: exactly the rungs that need it, on recordings of the real engine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hicachectl import store
from hicachectl.diagnosis.run import diagnose
from hicachectl.model.world import NEEDS
from tracers import vocabulary as v
from tracers.points import ALL

SAMPLES = Path(__file__).parent.parent / "samples" / "versions"
RELEASES = ("0.5.14", "0.5.23")
STATES = {"missing": {"state": "missing", "spans": 0}, "changed": {"state": "changed", "spans": 0}, "retired": {"state": "retired"}, "faulty": {"faults": 1}}
"""Ways in which a point can fail to see, as the ledger tells them."""


def ladders(run: Path) -> dict[str, dict[str, str]]:
    """Request -> rung -> value."""
    found = diagnose(store.read([run]))
    return {each.journey.attempt.rid: {name: rung.state for name, rung in each.ladder.items()} for each in found.requests}


def with_ledger(release: str, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of the recording of RELEASE in which CHANGE has been made to each row of the schedulers' ledgers."""
    run = folder / "run"
    shutil.copytree(SAMPLES / release, run)
    for path in run.glob("ledger-*.json"):
        ledger = json.loads(path.read_text())
        for row in ledger["points"] if ledger["scheduler"] else ():
            change(row)
        path.write_text(json.dumps(ledger))
    return run


def without_spans(run: Path, point_id: str) -> None:
    """Take out what POINT_ID records, and with it what calls inside inherited from it: their place, and their request."""
    blind = next(point for point in ALL if point.id == point_id)
    others = {point.span for point in ALL if point.id != point_id}
    if blind.span is None or blind.span in others:
        return
    own_rid = {point.span for point in ALL if point.rid is not None or point.many}
    for path in run.glob("spans-*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        scopes = [line["resourceSpans"][0]["scopeSpans"][0] for line in lines]
        gone = {span["spanId"] for scope in scopes for span in scope["spans"] if span["name"] == blind.span}
        for scope in scopes:
            scope["spans"] = [_orphan(span, own_rid) if span.get("parentSpanId") in gone else span for span in scope["spans"] if span["spanId"] not in gone]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        _written(run / f"{path.stem.replace('spans', 'ledger', 1)}.json", sum(len(scope["spans"]) for scope in scopes))


def _written(ledger: Path, spans: int) -> None:
    """What was never seen was never written: the ledger does not count it."""
    told = json.loads(ledger.read_text())
    ledger.write_text(json.dumps(told | {"written": spans}))


def _orphan(span: dict[str, Any], own_rid: set[str | None]) -> dict[str, Any]:
    kept = [each for each in span["attributes"] if span["name"] in own_rid or each["key"] != v.RID]
    return {key: value for key, value in span.items() if key != "parentSpanId"} | {"attributes": kept}


def points(release: str) -> list[str]:
    """Points of this release, those that no rung needs as well."""
    found: set[str] = set()
    for path in (SAMPLES / release).glob("ledger-*.json"):
        found |= {row["id"] for row in json.loads(path.read_text())["points"]}
    return sorted(found)


@pytest.mark.parametrize("release", RELEASES)
def test_a_recording_that_saw_everything_knows_every_rung(release: str) -> None:
    """One request wrote its prompt, the other took it from the store: nothing is unknown."""
    assert ladders(SAMPLES / release) == {
        "cold": {
            "backend_created": "yes", "written": "yes", "found": "no", "transfer_done": "not_asked", "published": "not_asked",
            "loaded_back": "not_asked", "prefix_reused": "no",
        },
        "storage": {
            "backend_created": "yes", "written": "not_asked", "found": "yes", "transfer_done": "yes", "published": "yes", "loaded_back": "yes",
            "prefix_reused": "yes",
        },
    }  # fmt: skip


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("release", "point"), [(release, point) for release in RELEASES for point in points(release)])
def test_a_blind_point_makes_exactly_its_rungs_unknown(release: str, point: str, state: str, tmp_path: Path) -> None:
    """No rung that needs the point is yes or no, and every other rung stays as it was, also without the spans of the point."""

    def blinded(row: dict[str, Any]) -> None:
        if row["id"] == point:
            row.update(STATES[state])

    whole = ladders(SAMPLES / release)
    lost = {rung for rung, needed in NEEDS.items() if point in needed}
    expected = {rid: {rung: "unknown" if rung in lost else value for rung, value in ladder.items()} for rid, ladder in whole.items()}
    run = with_ledger(release, tmp_path, blinded)
    if state != "faulty":
        without_spans(run, point)
    assert ladders(run) == expected


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("point", ["backend.open", "buffers.pool", "mooncake.batch_get"])
def test_a_ledger_that_is_a_moment_old_does_not_hide_what_was_recorded(release: str, point: str, tmp_path: Path) -> None:
    """A scheduler may be killed before its ledger tells that a module came in: its spans tell it as well."""

    def old(row: dict[str, Any]) -> None:
        if row["id"] == point:
            row.update(state="waiting", calls=0, spans=0)

    assert ladders(with_ledger(release, tmp_path, old)) == ladders(SAMPLES / release)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("point", ["prefetch.enqueue", "write.store", "reuse.prefill"])
def test_a_module_that_moved_makes_the_rungs_of_its_points_unknown(release: str, point: str, tmp_path: Path) -> None:
    """A serving engine that never imported a target's module calls it elsewhere: what it held is not seen."""

    def unimported(row: dict[str, Any]) -> None:
        if row["id"] == point:
            row.update(state="waiting", calls=0, spans=0)

    lost = {rung for rung, needed in NEEDS.items() if point in needed}
    run = with_ledger(release, tmp_path, unimported)
    without_spans(run, point)
    found = ladders(run)
    assert {rung for ladder in found.values() for rung, value in ladder.items() if value == "unknown"} == lost
