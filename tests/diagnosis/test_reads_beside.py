"""What goes beside a read without taking a page from it, and loads that end in ways of their own, on recordings made by hand."""

from pathlib import Path
from typing import Any

import pytest
from recordings import MadeSpan
from stories import Serving, Story
from test_losses import lost, of

from hicachectl.diagnosis.finding import Finding
from hicachectl.diagnosis.run import Diagnosis
from tracers import vocabulary as v


def codes(found: Diagnosis) -> dict[str, Finding]:
    """Findings by code."""
    return {each.code: each for each in found.findings}


def named(engine: Serving, name: str, rid: str = "again") -> MadeSpan:
    """The last span of a name that serves a request."""
    key = {"key": v.RID, "value": {"stringValue": rid}}
    return [span for span in engine.made.spans if span.document["name"] == name and key in span.document["attributes"]][-1]


def side_pool(story: Story, *, tree: str = "HiRadixCache", late: float = -3.0, **told: Any) -> None:
    """A prefetch whose side pool was read while its KV was: LATE is when that read ended, in milliseconds after the insert began."""
    engine = story.engine(tree={v.TREE: tree})
    engine.request("writes", 8).request("again", 8, prompt="writes", hit=8)
    publish, transfer = named(engine, v.PREFETCH_PUBLISH), named(engine, v.PREFETCH_TRANSFER)
    ended = int(publish.document["startTimeUnixNano"]) / 1e6 - story.recording.epoch_ms + late
    read = engine.made.span(v.PREFETCH_POOLS_READ, ended - 1, ended, rid="again", parent=transfer, attributes={v.OUTCOME: "ok", **told})
    assert read.document["parentSpanId"] == transfer.span_id


@pytest.mark.parametrize("told", [{v.POOL_SHORT: "indexer"}, {"late": 5.0}])
def test_kv_is_published_without_its_pool(tmp_path: Path, told: dict[str, Any]) -> None:
    """The indexer's part fell short, or came after the insert: R21, an error with the tokens and the pool."""
    story = Story()
    side_pool(story, **told)
    first = codes(story.judged(tmp_path))["HC-R21"]
    assert (first.args["tokens"], first.args["pool"], first.rids, first.level, first.certain) == (128, "indexer", ["again"], "error", True)


@pytest.mark.parametrize("told", [{}, {v.POOL_SHORT: "swa", "tree": "UnifiedRadixCache"}])
def test_kv_is_published_with_its_pool(tmp_path: Path, told: dict[str, Any]) -> None:
    """All was read in time; the unified tree looks at its pools itself: no R21."""
    story = Story()
    side_pool(story, **told)
    assert "HC-R21" not in codes(story.judged(tmp_path))


def test_pages_that_were_in_the_tree_already(tmp_path: Path) -> None:
    """Another request inserted five of eight pages meanwhile: an info that costs nothing."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=8, others=5)
    found = story.judged(tmp_path)
    assert lost(of(found, "again")) == {}
    told = codes(found)["HC-R23"]
    assert (told.args["tokens"], told.args["fetched"], told.level) == (80, 128, "info")


@pytest.mark.parametrize(("window", "pages", "expected"), [(256, 8, "HC-R08"), (128, 8, "HC-E05"), (None, 8, "HC-E05")])
def test_a_span_that_is_shorter_than_the_window(tmp_path: Path, window: int | None, pages: int, expected: str) -> None:
    """KV came without the window's part and could not be matched: R08 with both numbers; a span of the window's length has another cause."""
    story = Story()
    story.engine(tree={v.TREE: "UnifiedRadixCache", v.WINDOW: window}).request("writes", pages).request("again", pages, prompt="writes", hit=pages, matched=False)
    found = story.judged(tmp_path)
    assert lost(of(found, "again")) == {expected: 128}
    if expected == "HC-R08":
        assert (found.findings[0].args["tokens"], found.findings[0].args["window"]) == (128, 256)


@pytest.mark.parametrize(("retry", "hit", "expected"), [(8, 3, True), (7, 3, False), (8, 8, False)])
def test_retries_are_used_up(tmp_path: Path, retry: int, hit: int, expected: bool) -> None:
    """As many lookups as allowed, and pages lost all the same: R26 beside the code that explains the loss."""
    story = Story()
    engine = story.engine(sglang="0.5.23", started={v.RETRIES: 8})
    engine.request("writes", 8).request("again", 8, prompt="writes", hit=hit, retry=retry, **({"missing": {7: 0}} if hit == 3 else {}))
    found = story.judged(tmp_path)
    assert ("HC-R26" in codes(found)) == expected
    assert "HC-R26" not in lost(of(found, "again"))


def test_a_cold_prompt_that_was_looked_up_often(tmp_path: Path) -> None:
    """Nobody had written it: that its lookups are used up is no finding."""
    story = Story()
    story.engine(sglang="0.5.23", started={v.RETRIES: 8}).request("cold", 8, retry=8)
    assert codes(story.judged(tmp_path)) == {}


@pytest.mark.parametrize("code", ["L03", "L06", "L07", "L09"])
def test_a_load_that_the_process_gave_a_reason_for(tmp_path: Path, code: str) -> None:
    """Over a quota, no room in a side pool, nothing it may move, put off: every token is lost by that code, and it is certain."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=8, loaded=0, load_reason=code)
    again = of(story.judged(tmp_path), "again")
    assert lost(again) == {f"HC-{code}": 128}
    assert again.lost[0].certain


def test_a_load_that_is_put_off_has_no_load_of_the_tree(tmp_path: Path) -> None:
    """In buffer mode the tree is not asked at all: L09 from the answer alone."""
    story = Story()
    engine = story.engine(sglang="0.5.23").request("writes", 8).request("again", 8, prompt="writes", hit=8, loaded=0, load_reason="L09")
    engine.made.spans.remove(named(engine, v.LOAD_BACK))
    assert lost(of(story.judged(tmp_path), "again")) == {"HC-L09": 128}


def test_nothing_to_load(tmp_path: Path) -> None:
    """Admission asked, and the tree came to no load: all lies on the device, an info without a loss."""
    story = Story()
    engine = story.engine().request("writes", 8).request("again", 8, prompt="writes", device=6, host=2, loaded=0, prefix=8, gate="R04", writes=False)
    engine.made.spans.remove(named(engine, v.LOAD_BACK))
    found = story.judged(tmp_path)
    assert lost(of(found, "again")) == {}
    assert (codes(found)["HC-L01"].args["matched"], codes(found)["HC-L01"].level) == (96, "info")


def test_more_came_than_was_promised(tmp_path: Path) -> None:
    """Six pages were promised and eight loaded: G09 with both."""
    story = Story()
    engine = story.engine(sglang="0.5.23").request("writes", 8)
    engine.request("again", 8, prompt="writes", host=8, gate="R04", writes=False)
    ask = named(engine, v.LOAD_BACK_ASK)
    next(pair for pair in ask.document["attributes"] if pair["key"] == v.MATCHED_HOST)["value"] = {"intValue": "96"}
    told = codes(story.judged(tmp_path))["HC-G09"]
    assert (told.args["loaded"], told.args["promised"], told.level) == (128, 96, "info")


def later(engine: Serving, name: str, **told: Any) -> None:
    """Another span of the request after its first prefill."""
    engine.span(name, rid="again", attributes={v.OUTCOME: "ok", v.PROMPT_TOKENS: 133, v.RETRACTED: False, v.FIRST_CHUNK: False, **told})


def test_a_prefill_of_chunks(tmp_path: Path) -> None:
    """Three chunks of which the first carries the prefix: G04 with their number; a cold prompt has no split to speak of."""
    story = Story()
    engine = story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=4)
    for prefix in (64, 96):
        later(engine, v.PREFILL, **{v.PREFIX_TOKENS: prefix, v.EXTEND_TOKENS: 32, v.BATCH: 90 + prefix})
    told = codes(story.judged(tmp_path))["HC-G04"]
    assert (told.args["chunks"], told.rids, told.level) == (3, ["again"], "info")
    story = Story()
    engine = story.engine().request("again", 8)
    later(engine, v.PREFILL, **{v.PREFIX_TOKENS: 64, v.EXTEND_TOKENS: 69, v.BATCH: 99})
    assert codes(story.judged(tmp_path / "cold")) == {}


def test_a_request_that_was_retracted(tmp_path: Path) -> None:
    """It came back to the queue and was prefilled anew: G05 with how often, and its account is that of the first prefill."""
    story = Story()
    engine = story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=8)
    later(engine, v.REQUEST_QUEUED, **{v.RETRACTED: True})
    later(engine, v.PREFILL, **{v.RETRACTED: True, v.PREFIX_TOKENS: 0, v.EXTEND_TOKENS: 140, v.BATCH: 99, v.FIRST_CHUNK: True})
    found = story.judged(tmp_path)
    assert (codes(found)["HC-G05"].args["times"], codes(found)["HC-G05"].level) == (1, "info")
    assert "HC-G04" not in codes(found)
    assert of(found, "again").account.reused == 128
