"""A recording of the real engine with spans taken out: nothing wrong is said as certain, and the same recording always reads the same."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import invoke
import pytest
from stories import Story

from hicachectl import store
from hicachectl.diagnosis.run import Diagnosis, diagnose
from hicachectl.views import judged as view
from hicachectl.views.explained import as_json, finding_row
from tracers import vocabulary as v

SAMPLE = Path(__file__).parents[1] / "samples" / "faults"
TRUTH = {
    "healthy-again": set(),
    "short-again": {"HC-R04"},
    "part-whole": {"HC-R12"},
    "gap-again": {"HC-R13"},
    "late-again": {"HC-R13"},
    "cut-again": {"HC-R17"},
    "once": {"HC-W02"},
    "back": {"HC-W01"},
}
"""Request -> what explains it; W12 says of some that their pages were there when they were written again."""
ALWAYS = {"HC-W12", "HC-R19"}
PROVED = ("backend_created", "found", "transfer_done", "prefix_reused")
"""Rungs that the spans of the request itself prove."""


def thinned(seed: int, folder: Path, share: float = 0.1) -> Path:
    """The sample without a random SHARE of its spans; its ledgers still count them."""
    rng = random.Random(seed)
    run = Path(shutil.copytree(SAMPLE, folder / "run"))
    for path in run.glob("spans-*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for line in lines:
            scope = line["resourceSpans"][0]["scopeSpans"][0]
            scope["spans"] = [span for span in scope["spans"] if rng.random() >= share]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines if line["resourceSpans"][0]["scopeSpans"][0]["spans"]))
    return run


def said(found: Diagnosis, *, certain: bool) -> dict[str, set[str]]:
    """Request -> codes that name it."""
    codes: dict[str, set[str]] = {each.journey.attempt.rid: set() for each in found.requests}
    for each in found.raised:
        for rid in each.rids if each.certain or not certain else ():
            codes[rid].add(each.code)
    return codes


def ladders(found: Diagnosis) -> dict[str, dict[str, str]]:
    """Request -> rung -> value."""
    return {each.journey.attempt.rid: {rung: each.ladder[rung].state for rung in PROVED} for each in found.requests}


def test_the_sample_as_it_is() -> None:
    """Each request has the code that was provoked, and no other."""
    codes = said(diagnose(store.read([SAMPLE])), certain=True)
    assert {rid: codes[rid] - ALWAYS for rid in TRUTH} == TRUTH
    assert {code for rid in codes if rid.endswith("-writes") for code in codes[rid]} == set()


@pytest.mark.parametrize("seed", range(40))
def test_without_a_tenth_of_its_spans_nothing_wrong_is_certain(seed: int, tmp_path: Path) -> None:
    """What is certain is true, the recording says that it is incomplete, and every account still adds up."""
    whole = ladders(diagnose(store.read([SAMPLE])))
    found = diagnose(store.read([thinned(seed, tmp_path)]))
    assert not found.world.recording.complete
    for rid, codes in said(found, certain=True).items():
        assert codes <= TRUTH.get(rid, set()) | ALWAYS
    for rid, ladder in ladders(found).items():
        assert {rung: value for rung, value in ladder.items() if value not in ("unknown", whole[rid][rung])} == {}
    for each in found.requests:
        assert each.account.prompt in (0, each.account.reused + each.account.computed) or each.journey.prefix is None
        assert each.account.computed == each.lost_tokens + each.new + each.account.tail


def test_the_same_recording_gives_the_same_bytes() -> None:
    """Twice in one process, and in processes whose sets have other orders."""
    found = diagnose(store.read([SAMPLE]))
    here, again = ("".join(as_json(view.head_row(found.world), map(view.request_row, found.requests), lambda: map(finding_row, found.findings))) for _ in range(2))
    assert again == here
    for hash_seed in ("1", "2"):
        env = {**os.environ, **invoke.environment(), "PYTHONHASHSEED": hash_seed}
        told = subprocess.run([sys.executable, "-c", invoke.MAIN, "explain", str(SAMPLE), "-o", "json"], env=env, capture_output=True, text=True, check=False)
        assert told.stdout == here


def test_a_later_chunk_does_not_stand_for_the_first(tmp_path: Path) -> None:
    """The span of the first prefill is lost: what the second chunk carried was computed by the first, and is no reuse."""
    story = Story()
    engine = story.engine()
    engine.request("long", 16, writes=False)
    prefill = next(span for span in engine.made.spans if span.document["name"] == v.PREFILL)
    later = {v.FIRST_CHUNK: {"boolValue": False}, v.PREFIX_TOKENS: {"intValue": "128"}}
    for told in prefill.document["attributes"]:
        told["value"] = later.get(told["key"], told["value"])
    row = story.judged(tmp_path).requests[0]
    assert (row.account.reused, row.account.computed) == (0, 0)
    assert row.ladder["prefix_reused"].state == "unknown"
