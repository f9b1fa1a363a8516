"""The real engine with tracers that fail at every point in every way: it answers as without them, and the ledger says what failed."""

import json
import time
from pathlib import Path
from typing import Any

import engines
import invoke
import pytest
from engines import Played
from installed import needs

from hicachectl import store
from hicachectl.store.recording import Recording
from tracers import vocabulary as v
from tracers.points import ALL

# An engine for each setting or fault: more than the fifteen minutes of `make test` have room for.
pytestmark = [pytest.mark.real, pytest.mark.slow]

PROMPT = engines.tokens(597)
LIMIT = 5
"""Faults after which a point is retired."""
ROUNDS = 4


def plan(*last: engines.Step) -> list[engines.Step]:
    """The requests of the untraced engine, then the last of them again and again."""
    first = [engines.generate(PROMPT, rid="cold"), engines.written(74), engines.generate(PROMPT, rid="warm"), engines.flush(), engines.generate(PROMPT, rid="stored")]
    again = [step for number in range(ROUNDS) for step in (engines.flush(), engines.generate(PROMPT, rid=f"again-{number}"))]
    return [*first, *again, *last]


def play(monkeypatch: pytest.MonkeyPatch, run: Path, how: str, *last: engines.Step, **env: str) -> Played:
    """Play the plan in an engine that is sabotaged."""
    needs("sglang", "mooncake")
    monkeypatch.setattr(engines, "SCRIPT", Path(__file__).with_name("chaos_script.py"))
    return engines.play(plan(*last), env={"HICACHECTL_TRACE": str(run), "CHAOS": how, **env}, timeout=580)


@pytest.fixture(scope="module")
def patch() -> Any:
    """A monkeypatch for the whole module."""
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> tuple[Played, Path]:
    """Every reader before a call raises, then every reader after it; at the end the disk hangs."""
    run = tmp_path_factory.mktemp("before") / "run"
    flag = str(run.parent / "hang")
    last = [engines.wait(2.5), {"do": "touch", "path": flag}, engines.flush(), engines.generate(PROMPT, rid="hung"), engines.wait(0.5), engines.generate(PROMPT, rid="hung-too")]
    return play(patch, run, "before", *last, CHAOS_HANG=flag), run


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> tuple[Played, Path]:
    """Every reader after a call raises or returns nonsense, and the writer fails every third time."""
    run = tmp_path_factory.mktemp("after") / "run"
    return play(patch, run, "after", engines.wait(2.5)), run


@pytest.fixture(params=["before", "after"])
def broken(request: pytest.FixtureRequest) -> tuple[Played, Path]:
    """Each of both."""
    found: tuple[Played, Path] = request.getfixturevalue(request.param)
    return found


def scheduler(run: Path) -> dict[str, Any]:
    """The ledger of the scheduler, as it stood last."""
    documents: list[dict[str, Any]] = [json.loads(path.read_text()) for path in run.glob("ledger-*.json")]
    return next(each for each in documents if each["scheduler"])


def test_every_request_is_answered_as_without_tracers(reused: Played, broken: tuple[Played, Path]) -> None:
    """Token ids and cached tokens of each request equal those of the untraced engine, and the engine ended in order."""
    answers, expected = broken[0].answers(), reused.answers()
    assert len(answers) >= 3 + ROUNDS
    for place, answer in enumerate(answers):
        assert answer["output"] == expected[min(place, 2)]["output"]
        if place < 3 + ROUNDS:
            assert answer["cached_tokens"] == expected[min(place, 2)]["cached_tokens"]
    assert broken[0].code == 0


def test_each_point_that_was_called_is_named_with_its_faults(broken: tuple[Played, Path]) -> None:
    """The ledger has a count of faults for every point that the engine reached, and no span of any."""
    rows = {row["id"]: row for row in scheduler(broken[1])["points"] if row["state"] in ("installed", "retired")}
    reached = {name for name, row in rows.items() if row["faults"]}
    assert {"engine.start", "engine.built", "backend.create", "backend.open", "mooncake.setup", "mooncake.register_buffer"} <= reached
    assert {"request.queued", "prefetch.gate", "prefetch.lookup", "mooncake.batch_exist", "write.insert", "reuse.prefill", "request.finished"} <= reached
    assert len(reached) >= 25
    assert {name for name, row in rows.items() if row["spans"]} == set()


def test_points_that_fail_again_and_again_are_retired(broken: tuple[Played, Path]) -> None:
    """After its limit a point is switched off: it has that many faults and no more, and is told as retired."""
    rows = {row["id"]: row for row in scheduler(broken[1])["points"] if row["state"] in ("installed", "retired")}
    retired = {name for name, row in rows.items() if row["state"] == "retired"}
    assert {"request.queued", "prefetch.gate", "prefetch.lookup", "reuse.prefill"} <= retired
    assert all((row["faults"] >= LIMIT) == (name in retired) for name, row in rows.items())
    # Another thread may be inside a call, or a value may wait for the writer, when the point is retired.
    assert all(row["faults"] <= LIMIT + 8 for row in rows.values())


def test_explain_says_that_it_did_not_see(broken: tuple[Played, Path]) -> None:
    """A recording of failed points makes no claim: nothing is said of rungs that need them, and the points are named."""
    done = invoke.hicachectl("explain", str(broken[1]), "-o", "json", "--fail-on", "never")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["requests"], document["findings"]) == ([], [])
    (engine,) = document["engines"]
    assert {"request.queued", "prefetch.gate", "reuse.prefill"} <= set(engine["points"]["missing"])


def test_a_writer_that_fails_now_and_then_is_named(after: tuple[Played, Path]) -> None:
    """The writer's own faults are counted, and it went on: the ledger was still written at the end."""
    document = scheduler(after[1])
    assert [text for text in document["faults"] if text.startswith("spool: Sabotage")]
    assert document["seen_ms"] - document["start_ms"] > 1000


# --- sudden death -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> tuple[Played, Path]:
    """A scheduler that is killed while it serves, its tracers in order."""
    run = tmp_path_factory.mktemp("killed") / "run"
    return play(patch, run, "", engines.wait(0.3), engines.generate(engines.tokens(300, 11), rid="last"), {"do": "kill_scheduler"}), run


@pytest.fixture(scope="module")
def left(killed: tuple[Played, Path]) -> Recording:
    """What it left behind."""
    return store.read([killed[1]])


def test_sudden_death_costs_at_most_the_last_second(killed: tuple[Played, Path], left: Recording) -> None:
    """Spans up to a second before the kill are there; every line is whole, or the last one."""
    when = killed[0].steps[-1]["ns"]
    assert time.time_ns() > when
    newest = max(span.end_ns for span in left.spans if span.name != v.STORE_SAMPLE)
    assert when - newest < 1_000_000_000
    assert left.broken_lines == 0
    assert left.missing == 0


def test_explain_works_on_what_was_left_and_says_that_it_ends_early(killed: tuple[Played, Path], left: Recording) -> None:
    """All requests that were answered are judged, but for one of the last moment, and the recording is told to be incomplete."""
    done = invoke.hicachectl("explain", str(killed[1]), "-o", "json", "--fail-on", "never")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["complete"] is False
    assert [reason for reason in left.incomplete if "did not end in order" in reason]
    known = ["cold", "warm", "stored", *(f"again-{number}" for number in range(ROUNDS))]
    assert [row["rid"] for row in document["requests"]] in (known, [*known, "last"])
    text = invoke.hicachectl("explain", str(killed[1]), "--fail-on", "never").stdout
    assert "did not end in order" in text


def test_most_points_saw_the_engine(killed: tuple[Played, Path]) -> None:
    """Without sabotage the same plan reaches the points that were sabotaged, without a fault: the tests above tried what they say."""
    rows = {row["id"]: row for row in scheduler(killed[1])["points"]}
    assert {name for name, row in rows.items() if row["faults"]} == set()
    called = {name for name, row in rows.items() if row["calls"]}
    assert len(called) >= 25
    assert called <= {point.id for point in ALL}
