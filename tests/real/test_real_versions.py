"""The verdicts hold on whichever pair of releases is installed: the demo's scenarios, namespaces, and two ranks."""

import json
from collections import defaultdict
from importlib import metadata
from pathlib import Path

import engines
import invoke
import pytest
import verdicts
from installed import needs

from hicachectl.keys.page import page_keys
from hicachectl.store import read
from tracers import vocabulary as v

pytestmark = pytest.mark.real

PROMPT = engines.tokens(597)
PAGES = 592 // 16


@pytest.mark.slow
def test_the_demo_ends_with_four_verdicts_as_expected(tmp_path: Path) -> None:
    """Created, transferred, reused, and reused by a second engine, each as expected, the second engine's writer named, exit 0."""
    needs("sglang", "mooncake")
    done = invoke.hicachectl("demo", "--run", str(tmp_path / "run"), "-o", "json", timeout=900)
    assert done.stdout, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert done.returncode == 0, document["scenarios"]
    names = ["created_only", "transferred_not_reused", "reused", "reused_by_second_engine"]
    assert [scenario["name"] for scenario in document["scenarios"]] == names
    assert all(scenario["as_expected"] for scenario in document["scenarios"])
    explained = verdicts.explained(tmp_path / "run")
    assert all(verdicts.adds_up(row) for row in explained["requests"])


def test_requests_of_two_namespaces_share_nothing_and_the_verdict_says_so(tmp_path: Path) -> None:
    """A salted prompt comes back from the store under its own keys; without the salt its pages are lost to another namespace (K07)."""
    needs("sglang", "mooncake")
    if release() < (0, 5, 23):
        pytest.skip("this release hashes no namespace into its keys")
    run = tmp_path / "run"
    plan = [
        engines.generate(PROMPT, rid="salted", salt="pepper"),
        engines.written(2 * PAGES),
        engines.flush(),
        engines.generate(PROMPT, rid="salted-again", salt="pepper"),
        engines.flush(),
        engines.generate(PROMPT, rid="plain"),
    ]
    engines.play(plan, before=("trace", "--run", str(run), "--"))
    document = verdicts.explained(run)
    assert verdicts.request(document, "salted-again")["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 592}
    assert verdicts.request(document, "salted-again")["writers"][0]["rid"] == "salted"
    assert [(loss["code"], loss["tokens"]) for loss in verdicts.request(document, "plain")["lost"]] == [("HC-K07", 592)]
    assert next(finding for finding in document["findings"] if finding["code"] == "HC-K07")["certain"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks: a prompt written by both, one page of rank 1 gone from the store, and the prompt again."""
    needs("sglang", "mooncake")
    run = tmp_path_factory.mktemp("ranks") / "run"
    gone = page_keys(PROMPT, 16, sglang=".".join(map(str, release())))[20]
    plan = [
        engines.generate(PROMPT, rid="cold"),
        engines.written(4 * PAGES),
        engines.flush(),
        engines.generate(PROMPT, rid="whole"),
        engines.flush(),
        engines.forget(f"{gone}_1_", 2),
        engines.generate(PROMPT, rid="gap-on-rank-1"),
    ]
    engines.play(plan, engine={"tp_size": 2}, before=("trace", "--run", str(run), "--"), timeout=600)
    return run


def test_both_ranks_are_engines_and_the_backend_is_that_of_both(ranks: Path) -> None:
    """Two schedulers, each with its own backend and its own half of the heads; a request has one row, that of rank 0."""
    document = verdicts.explained(ranks)
    assert sorted((engine["tp_rank"], engine["tp_size"]) for engine in document["engines"]) == [(0, 2), (1, 2)]
    assert {engine["backend"]["state"] for engine in document["engines"]} == {"yes"}
    zero = next(engine["engine"] for engine in document["engines"] if engine["tp_rank"] == 0)
    assert [(row["rid"], row["engine"]) for row in document["requests"]] == [(rid, zero) for rid in ("cold", "whole", "gap-on-rank-1")]
    backends = {engine["backend"]["evidence"][0] for engine in document["engines"]}
    proved = verdicts.request(document, "cold")["rungs"]["backend_created"]["evidence"]
    assert backends <= set(proved)


def test_spans_of_both_ranks_lie_in_one_trace(ranks: Path) -> None:
    """The trace of a request is derived from its id, so that every rank's lookup is in it."""
    traces: dict[str, set[str]] = defaultdict(set)
    who: dict[str, set[str]] = defaultdict(set)
    for span in read([ranks]).spans:
        if span.name == v.PREFETCH_LOOKUP:
            traces[str(span.attributes[v.RID])].add(span.trace_id)
            who[str(span.attributes[v.RID])].add(span.engine)
    assert {rid: len(found) for rid, found in traces.items()} == {"cold": 1, "whole": 1, "gap-on-rank-1": 1}
    assert {len(found) for found in who.values()} == {2}


def test_tokens_are_never_added_over_ranks(ranks: Path) -> None:
    """Both ranks hold the same tokens: the prompt is counted once, and so is what it reuses and writes."""
    document = verdicts.explained(ranks)
    whole = verdicts.request(document, "whole")
    assert whole["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 592} == whole["tokens"]["engine_claims"]
    assert whole["writers"] == [{"engine": whole["engine"], "rid": "cold", "tokens": 592}]
    assert verdicts.request(document, "cold")["ladder"]["written"] == "yes"
    assert all(verdicts.adds_up(row) for row in document["requests"])


def test_the_agreed_hit_is_the_least_of_all_ranks(ranks: Path) -> None:
    """Rank 0 finds 592 tokens and rank 1 only 320: 320 are reused, and the others are lost to the rank that found least (R11)."""
    document = verdicts.explained(ranks)
    row = verdicts.request(document, "gap-on-rank-1")
    assert row["ladder"]["found"] == "partial"
    assert row["tokens"]["reused"]["storage"] == 320
    assert [(loss["code"], loss["tokens"]) for loss in row["lost"]] == [("HC-R11", 272)]
    told = next(finding for finding in document["findings"] if finding["code"] == "HC-R11")
    assert (told["args"]["rank"], told["args"]["local"], told["args"]["agreed"], told["certain"]) == (1, 592, 320, True)


def test_each_rank_is_told_with_its_own_hit_and_its_skew(ranks: Path) -> None:
    """What each rank found and read by itself, and by how much it came after the first; the agreed hit is the least of these."""
    document = verdicts.explained(ranks)
    for rid, found in (("whole", [592, 592]), ("gap-on-rank-1", [592, 320])):
        row = verdicts.request(document, rid)
        assert [each["rank"] for each in row["ranks"]] == [0, 1]
        assert [each["found_tokens"] for each in row["ranks"]] == found
        assert [each["read_tokens"] for each in row["ranks"]] == [min(found)] * 2
        for key in ("lookup_after_ms", "transfer_after_ms"):
            behind = [each[key] for each in row["ranks"]]
            assert min(behind) == 0
            assert 0 < max(behind) < 60_000
        assert row["tokens"]["reused"]["storage"] == min(found)


def test_every_point_of_the_release_is_on_and_none_failed(ranks: Path) -> None:
    """In each scheduler no point is missing, changed or faulty."""
    schedulers = [ledger for ledger in read([ranks]).ledgers.values() if ledger.scheduler]
    assert len(schedulers) == 2
    for ledger in schedulers:
        assert ledger.ids("missing") == ledger.ids("changed") == ledger.ids("retired") == ledger.faulty == []


def test_keys_of_the_prompt_are_those_that_the_engine_asks_and_writes_under(ranks: Path) -> None:
    """The keys that the writer works out from the prompt are those of the lookup and of the put, prefix and suffixes included."""
    spans = [span for span in read([ranks]).spans if span.attributes.get(v.RID) in (None, "cold")]
    for engine in {span.engine for span in spans if span.name == v.REQUEST_QUEUED}:
        own = [span for span in spans if span.engine == engine]
        queued, opened = (next(span for span in own if span.name == name) for name in (v.REQUEST_QUEUED, v.BACKEND_OPEN))
        asked = next(span for span in own if span.name == v.STORE_EXIST and v.RID in span.attributes)
        put = next(span for span in own if span.name == v.STORE_PUT and v.RID in span.attributes)
        assert len(str(queued.attributes[v.PROMPT_PAGE_KEYS])) == PAGES * v.PAGE_KEY_DIGITS
        assert asked.attributes[v.PAGE_KEYS] == put.attributes[v.PAGE_KEYS] == queued.attributes[v.PROMPT_PAGE_KEYS]
        assert put.attributes.get(v.OBJECT_PREFIX) == opened.attributes.get(v.KEY_PREFIX)
        assert put.attributes[v.OBJECT_SUFFIXES] == opened.attributes[v.KEY_SUFFIXES]


def release() -> tuple[int, ...]:
    """The numbers of the installed SGLang."""
    return tuple(int(part) for part in metadata.version("sglang").split(".")[:3])
