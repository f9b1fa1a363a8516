"""A storage backend that comes and goes while the engine serves: what each request could have, and what is said of it."""

import time
from dataclasses import dataclass, field
from typing import Any

import faults_bench as bench
import pytest
from faults_bench import Bench, Engine, Judged, explain, tokens
from faults_releases import expected
from test_one_engine import lost

from hicachectl.store import read
from tracers import vocabulary as v

# An engine of its own: more than the fifteen minutes of `make test` have room for.
pytestmark = [pytest.mark.real, pytest.mark.slow]

PROMPT, EARLY = tokens(400, 51), tokens(320, 52)
LONGER = EARLY + tokens(320, 53)
PAIR = {f"pair-{seed}": tokens(400, 540 + seed) for seed in range(2)}
RETRACTS = {"SGLANG_TEST_RETRACT": "1"}
"""SGLang's own switch: now and then one of several running requests goes back to the queue."""


@dataclass
class Played:
    """The engine, and what it answered to attach and detach, in order."""

    engine: Engine
    answers: list[dict[str, Any]] = field(default_factory=list)

    def row(self, rid: str) -> dict[str, Any]:
        """A request's row, its account compared with what the engine returned."""
        return explain(self.engine.run).request(rid, self.engine)


@pytest.fixture(scope="module")
def played(lab: Bench) -> Played:
    """An engine without a backend: asked, attached, asked, detached, asked, attached anew, asked."""
    with bench.store() as store, lab.engine(store, "later", env=RETRACTS, hicache_storage_backend=None) as engine:
        told = Played(engine)
        engine.ask("without", PROMPT)
        engine.flush()
        told.answers.append(engine.tell("attach"))
        engine.store(store, "writes", PROMPT)
        engine.ask("again", PROMPT)
        engine.ask_all(PAIR, new=16)
        assert bench.soon(lambda: bench.settled(store), 20)
        engine.flush()
        told.answers.append(engine.tell("detach"))
        engine.ask("detached", PROMPT)
        engine.flush()
        engine.ask("early", EARLY)
        told.answers.append(attached(engine, backend="moonkake"))
        engine.ask("refused", PROMPT)
        told.answers.append(attached(engine, extra={"prefetch_threshold": 32}))
        engine.ask("late", LONGER)
        assert bench.soon(lambda: bench.settled(store), 20)
        engine.flush()
        engine.ask("anew", PROMPT)
        engine.flush()
        engine.ask("late-again", LONGER)
    return told


def attached(engine: Engine, **asked: Any) -> dict[str, Any]:
    """The answer to an attach, once the engine has nothing under way: before, its scheduler refuses without asking the tree."""
    deadline = time.monotonic() + 20
    while "not idle" in (answer := engine.tell("attach", **asked))["message"] and time.monotonic() < deadline:
        time.sleep(0.2)
    return answer


def test_the_engine_did_what_it_was_asked(played: Played) -> None:
    """Attach, detach and attach again succeed; a backend of no known name is refused."""
    assert [answer["success"] for answer in played.answers] == [True, True, False, True]


@pytest.mark.parametrize(
    ("rid", "backend", "found", "stored"),
    [
        ("without", "not_asked", "not_asked", 0),
        ("again", "yes", "yes", 384),
        ("detached", "not_asked", "not_asked", 0),
        ("refused", "no", "not_asked", 0),
        ("anew", "yes", "yes", 384),
    ],
)
def test_each_request_is_judged_by_the_backend_of_its_time(played: Played, rid: str, backend: str, found: str, stored: int) -> None:
    """Before the attach, after it, after the detach, after a refused attach, and after the next one."""
    row = played.row(rid)
    assert (row["ladder"]["backend_created"], row["ladder"]["found"]) == (backend, found)
    assert row["tokens"]["reused"]["storage"] == stored


def test_what_was_written_before_the_detach_is_lost_without_a_backend(played: Played) -> None:
    """The pages are in the store, nobody asks for them: R01, and nothing is said of a prompt that nobody had written."""
    found = explain(played.engine.run, request="detached")
    assert lost(found.request("detached", played.engine)) == {"HC-R01": 384}
    assert lost(played.row("without")) == {}


def test_the_writer_is_named_over_two_attachments(played: Played) -> None:
    """Written under the first attachment, read under the second."""
    assert [(each["rid"], each["tokens"]) for each in played.row("anew")["writers"]] == [("writes", 384)]


def test_the_refused_attach_is_told_with_the_engines_own_words(played: Played) -> None:
    """A11 names the backend that was asked for and the reason."""
    found = [each for each in explain(played.engine.run).document["findings"] if each["code"] == "HC-A11"]
    assert [(each["level"], each["args"]["backend"]) for each in found] == [("warning", "moonkake")]
    assert "moonkake" in found[0]["args"]["reason"]


def test_a_request_that_went_back_to_the_queue(played: Played) -> None:
    """Two ran together and one was retracted: G05 says how often, and its account is that of its first prefill."""
    found = explain(played.engine.run)
    told = found.code("HC-G05")
    assert (told["level"], told["certain"]) == ("info", True)
    assert set(told["rids"]) <= set(PAIR)
    for rid in told["rids"]:
        first = explain(played.engine.run, request=rid).first(rid)
        assert (first["code"], first["args"]["times"] >= 1) == ("HC-G05", True)
        assert (found.request(rid, played.engine)["ladder"]["written"], lost(played.row(rid))) == ("yes", {})


def test_attach_and_detach_are_spans_of_their_own(played: Played) -> None:
    """Each call that the engine answered, and each client that connected."""
    spans = read([played.engine.run]).spans
    outcomes = [(span.name, span.attributes[v.OUTCOME]) for span in spans if span.name in (v.BACKEND_ATTACH_ASKED, v.BACKEND_DETACH)][:4]
    assert outcomes == [(v.BACKEND_ATTACH_ASKED, "ok"), (v.BACKEND_DETACH, "ok"), (v.BACKEND_ATTACH_ASKED, "declined"), (v.BACKEND_ATTACH_ASKED, "ok")]
    assert [span.attributes[v.CODE] for span in spans if span.name == v.STORE_SETUP] == [0, 0]


def test_what_lay_in_the_tree_before_the_attach(played: Played) -> None:
    """The pages of a prompt that was there before are not in the store: what was written behind them is out of reach, or under keys of a suffix."""
    judged: Judged = explain(played.engine.run, request="late-again")
    row = judged.request("late-again", played.engine)
    assert row["tokens"]["reused"]["storage"] == 0
    assert lost(row) == expected("late attach", "lost")
