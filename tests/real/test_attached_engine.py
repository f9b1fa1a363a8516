"""A real engine that was started without tracers: attached to three times while it serves, judged right, and left as it was."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engines
import invoke
import pytest
import verdicts
from installed import needs

from hicachectl.store import read
from tracers import vocabulary as v

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROMPT, OTHER, THIRD = engines.tokens(597), engines.tokens(400, seed=11), engines.tokens(300, seed=13)
SCRIPT = Path(__file__).parent / "attach_script.py"
RUNS = ("key", "elsewhere", "kill")


@dataclass(frozen=True)
class Attached:
    """What the plan gave, and the recordings by how they were ended."""

    played: engines.Played
    runs: dict[str, Path]

    def step(self, do: str, number: int = 0) -> dict[str, Any]:
        """The step of this kind with this number."""
        return [step for step in self.played.steps if step["do"] == do][number]

    def answer(self, rid: str) -> dict[str, Any]:
        """What a request answered."""
        return next(step for step in self.played.answers() if step["rid"] == rid)


def plan(runs: dict[str, Path] | None) -> list[engines.Step]:
    """Requests before, between and after; with RUNS, three attaches around some of them."""

    def only(*steps: engines.Step) -> list[engines.Step]:
        return list(steps) if runs is not None else []

    def attach(how: str) -> list[engines.Step]:
        return only({"do": "attach", "run": str((runs or {}).get(how))})

    def detach(how: str) -> list[engines.Step]:
        return only(engines.wait(1.5), {"do": "detach", "how": how}, {"do": "compare"})

    return [
        engines.generate(PROMPT, rid="before"),
        engines.written(74),
        *only({"do": "remember"}),
        *attach("key"),
        engines.generate(OTHER, rid="cold"),
        engines.written(124),
        engines.generate(PROMPT, rid="warm"),
        *only({"do": "refused"}),
        engines.flush(),
        engines.generate(PROMPT, rid="stored"),
        *detach("key"),
        engines.generate(THIRD, rid="between"),
        engines.written(160),
        engines.flush(),
        *attach("elsewhere"),
        engines.generate(OTHER, rid="again"),
        *detach("elsewhere"),
        *attach("kill"),
        engines.generate(THIRD, rid="third"),
        *detach("kill"),
        engines.generate(THIRD, rid="last"),
    ]


@pytest.fixture(scope="module", autouse=True)
def _script() -> Any:
    """Plans are played by the script that can attach."""
    before, engines.SCRIPT = engines.SCRIPT, SCRIPT
    yield
    engines.SCRIPT = before


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Attached:
    """One engine with HICACHECTL_ATTACH=1, and the attaches."""
    needs("sglang", "mooncake")
    folder = tmp_path_factory.mktemp("attached")
    runs = {how: folder / how for how in RUNS}
    with tempfile.TemporaryDirectory() as questions:
        env = {"HICACHECTL_ATTACH": "1", v.ATTACH_FOLDER_VARIABLE: str(folder / "sockets"), "ATTACH_TEST_FOLDER": questions, "HICACHECTL_HOME": str(folder / "home")}
        return Attached(engines.play(plan(runs), env=env, timeout=550), runs)


@pytest.fixture(scope="module")
def plain() -> engines.Played:
    """The same requests to an engine of which nobody knows."""
    needs("sglang", "mooncake")
    with tempfile.TemporaryDirectory() as questions:
        return engines.play(plan(None), env={"ATTACH_TEST_FOLDER": questions}, timeout=300)


def test_every_token_is_the_same(attached: Attached, plain: engines.Played) -> None:
    """Output and cached tokens of each request, before, during, between and after, equal those of an engine without any of it."""
    for without, with_attach in zip(plain.answers(), attached.played.answers(), strict=True):
        assert (with_attach["rid"], with_attach["output"], with_attach["cached_tokens"]) == (without["rid"], without["output"], without["cached_tokens"])


def test_each_attach_records_the_requests_of_its_time_alone(attached: Attached) -> None:
    """Three recordings of one engine process, complete, without a fault of a point."""
    rids = {how: [row["rid"] for row in verdicts.explained(run)["requests"]] for how, run in attached.runs.items()}
    assert rids == {"key": ["cold", "warm", "stored"], "elsewhere": ["again"], "kill": ["third"]}
    for how in ("key", "elsewhere"):
        document = verdicts.explained(attached.runs[how])
        assert document["complete"], document["incomplete"]
        assert document["dropped_spans"] == 0
    for run in attached.runs.values():
        for ledger in read([run]).ledgers.values():
            assert ledger.faults == []
            assert ledger.ids("missing") == ledger.ids("changed") == ledger.ids("retired") == []
    pids = {document["engines"][0]["pid"] for document in map(verdicts.explained, attached.runs.values())}
    assert len(pids) == 1


def test_requests_during_an_attach_are_judged_right_and_what_was_before_is_unknown(attached: Attached) -> None:
    """Cold, warm and stored climb the ladder as in a traced engine; that the backend was created is unknown, with the reason."""
    document = verdicts.explained(attached.runs["key"])
    cold, warm, stored = (verdicts.request(document, rid) for rid in ("cold", "warm", "stored"))
    assert cold["ladder"] == {"backend_created": "unknown", "written": "yes", "found": "no", "transfer_done": "not_asked", "published": "not_asked", "loaded_back": "not_asked", "prefix_reused": "no"}
    assert warm["tokens"]["reused"] == {"device": 592, "host": 0, "storage": 0}
    assert stored["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 592} == stored["tokens"]["engine_claims"]
    assert {stored["ladder"][rung] for rung in ("found", "transfer_done", "published", "loaded_back", "prefix_reused")} == {"yes"}
    assert "attached after start" in cold["verdict"]
    for how, run in attached.runs.items():
        told = verdicts.explained(run)
        assert all(verdicts.adds_up(row) for row in told["requests"])
        assert [(row["rid"], verdicts.reused(row)) for row in told["requests"]] == [(row["rid"], attached.answer(row["rid"])["cached_tokens"]) for row in told["requests"]], how
        assert not [finding for finding in told["findings"] if finding["level"] in ("error", "warning")]


def test_settings_in_force_are_read_at_the_attach(attached: Attached) -> None:
    """Page size, backend, tree, device and transport are those of the engine, though nobody saw them being set."""
    for run in attached.runs.values():
        (engine,) = verdicts.explained(run)["engines"]
        assert (engine["page_size"], engine["backend"]["name"], engine["device"]) == (16, "mooncake", "cpu")
        assert engine["tree"] in ("HiRadixCache", "UnifiedRadixCache")
        assert engine["backend"]["transport"] == {"asked": "tcp", "in_use": "tcp"}
        assert engine["backend"]["uncovered_buffers"] == 0
        assert engine["attached"]["at_ms"] > 0
        assert engine["points"]["missing"] == ["prefetch.thread", "write.thread"]


def test_a_flush_by_way_of_a_held_method_is_seen(attached: Attached) -> None:
    """The scheduler's helper holds `flush_cache` since it was built: it is bound anew, and the flush is in the recording."""
    spans = read([attached.runs["key"]]).spans
    assert [span.name for span in spans if span.name == v.FLUSH]


def test_every_object_is_the_same_after_each_detach(attached: Attached) -> None:
    """Attributes of every class of SGLang and Mooncake, what the scheduler's parts hold, import watchers and threads; no mark is left."""
    (remembered,) = attached.step("remember")["told"].values()
    assert remembered.get("kept", 0) > 1000, remembered
    for number in range(3):
        (told,) = attached.step("compare", number)["told"].values()
        assert told["other"] == []
        assert not [name for name in (*told["more"], *told["less"]) if "hicachectl" in name or name.startswith("finder")], told


def test_each_end_has_its_exit_code_and_its_words(attached: Attached) -> None:
    """Ctrl-C is 130, a detach from elsewhere 0; a second attach meanwhile was refused."""
    key, elsewhere, _ = (attached.step("detach", number) for number in range(3))
    assert (key["code"], elsewhere["code"]) == (130, 0)
    assert "recorded 3 requests" in key["said"]
    assert "asked for it" in elsewhere["said"]
    refused = attached.step("refused")
    assert refused["code"] == 3
    assert "is being recorded already" in refused["said"]


def test_points_lists_what_an_attach_cannot_see(attached: Attached) -> None:
    """The threads that ran before are told as blind, with their names."""
    done = invoke.hicachectl("points", str(attached.runs["key"]), "-o", "json")
    document = json.loads(done.stdout)
    (scheduler,) = [process for process in document["processes"] if process["scheduler"]]
    blind = [point for point in scheduler["points"] if point["state"] == "blind"]
    assert {point["id"] for point in blind} == {"prefetch.thread", "write.thread"}
    assert all("since before the attach" in point["detail"] for point in blind)
