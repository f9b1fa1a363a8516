"""Writes that do not begin, count as done, or name the wrong thing, on recordings made by hand."""

from pathlib import Path
from typing import Any

import pytest
from recordings import MadeSpan, page_keys
from stories import Serving, Story

from hicachectl.diagnosis.finding import Finding
from tracers import vocabulary as v


def found(story: Story, folder: Path) -> dict[str, Finding]:
    """Findings by code."""
    return {each.code: each for each in story.judged(folder).findings}


def attached(engine: Serving, outcome: str = "ok", reason: str | None = None) -> MadeSpan:
    """Somebody asks the running engine to attach a backend."""
    return engine.span(v.BACKEND_ATTACH_ASKED, attributes={v.OUTCOME: outcome, v.BACKEND: "mooncake", v.REASON: reason})


def copied(engine: Serving, rid: str, keys: str, **told: Any) -> MadeSpan:
    """A node of the request is copied to the host."""
    return engine.span(v.WRITE_BACKUP, rid=rid, attributes={v.OUTCOME: "ok", v.NODE: 9, v.TOKENS: 64, v.WRITTEN_TOKENS: 64, v.PAGE_KEYS: keys, **told})


def test_keys_that_name_a_suffix(tmp_path: Path) -> None:
    """After an attach the first node that a request has copied has no key of its prompt: K10, an error with its pages."""
    story = Story()
    engine = story.engine()
    attach = attached(engine)
    engine.request("suffix", 8, device=4, writes=False)
    copy = copied(engine, "suffix", page_keys("a", "b", "c", "d"))
    told = found(story, tmp_path)["HC-K10"]
    assert (told.args["pages"], told.rids, told.level, told.certain) == (4, ["suffix"], "error", True)
    assert {attach.span_id, copy.span_id} <= set(told.evidence)


@pytest.mark.parametrize("why", ["no attach", "refused", "own keys", "copied before", "nothing computed"])
def test_keys_of_output_pages_prove_nothing(tmp_path: Path, why: str) -> None:
    """Without an attach, with one that was refused, where the prompt's pages have been copied under their keys, or were all there, nothing is said."""
    story = Story()
    engine = story.engine()
    if why != "no attach":
        attached(engine, *(("declined", "A11") if why == "refused" else ()))
    if why == "copied before":
        engine.request("first", 8, prompt="p", writes=True)
    engine.request("asks", 8, prompt="p", device=8 if why == "nothing computed" else 4, writes=False)
    if why == "own keys":
        copied(engine, "asks", "".join(engine.keys("p", 8)[4:]))
    copied(engine, "asks", page_keys("a", "b", "c", "d"))
    assert "HC-K10" not in found(story, tmp_path)


def chunked(story: Story, *, ended: bool = True, counted: bool = False, **controller: Any) -> None:
    """A prompt of which two chunks came into the tree, and that was aborted before the third."""
    engine = story.engine(controller=controller)
    engine.request("long", 8, writes=False)
    spans = engine.made.spans
    spans[:] = [span for span in spans if span.document["name"] not in (v.WRITE_INSERT, v.REQUEST_FINISHED)]
    for tokens in (32, 64):
        engine.span(v.WRITE_INSERT, rid="long", attributes={v.OUTCOME: "ok", v.TOKENS: tokens, v.CHUNKED: True})
    if counted:
        engine.span(v.WRITE_INSERT, rid="long", attributes={v.OUTCOME: "ok", v.TOKENS: 133, v.CHUNKED: False})
    if ended:
        engine.span(v.REQUEST_FINISHED, rid="long", attributes={v.OUTCOME: "ok", v.PROMPT_TOKENS: 133, v.OUTPUT_TOKENS: 0})


def test_chunks_of_a_request_that_was_aborted(tmp_path: Path) -> None:
    """Its chunks are in the tree, none counted as a hit: W03 with the tokens that no write was begun for."""
    story = Story()
    chunked(story)
    told = found(story, tmp_path)["HC-W03"]
    assert (told.args["tokens"], told.args["inserts"], told.level, told.certain) == (64, 2, "warning", True)


@pytest.mark.parametrize("told", [{"ended": False}, {"counted": True}, {v.WRITE_POLICY: "write_back"}, {v.WRITE_POLICY: "write_through_selective"}])
def test_chunks_that_are_counted_later(tmp_path: Path, told: dict[str, Any]) -> None:
    """While the request runs, after an insert that counts, or under a policy that does not write at the first hit: no W03."""
    story = Story()
    chunked(story, **told)
    assert "HC-W03" not in found(story, tmp_path)


def test_a_side_pool_without_room_for_a_write(tmp_path: Path) -> None:
    """The process told the pool: W08 names it."""
    story = Story()
    engine = story.engine()
    engine.request("writes", 8, writes=False)
    copied(engine, "writes", page_keys("a"), **{v.OUTCOME: "declined", v.WRITTEN_TOKENS: 0, v.POOL_SHORT: "mamba", v.REASON: "W08"})
    told = found(story, tmp_path)["HC-W08"]
    assert (told.args["pool"], told.args["tokens"], told.rids) == ("mamba", 64, ["writes"])


@pytest.mark.parametrize(("skip", "queued", "expected"), [(True, True, ["HC-W11"]), (True, False, []), (False, True, [])])
def test_a_rank_that_leaves_the_writing_to_another(tmp_path: Path, skip: bool, queued: bool, expected: list[str]) -> None:
    """KV is the same on every rank and operations are queued for one that skips them: an info with its rank."""
    story = Story()
    engine = story.engine(tp_rank=1, tp_size=2, attach={v.BACKUP_SKIP: skip})
    if queued:
        engine.span(v.WRITE_ENQUEUE, rid="a", attributes={v.OUTCOME: "ok", v.OPERATION: 1, v.PAGES: 8, v.BACKUP_SKIP: skip})
    told = found(story, tmp_path)
    assert list(told) == expected
    assert all((each.args["rank"], each.level) == (1, "info") for each in told.values())


def drafted(engine: Serving, *, raised: bool, whole: bool = False) -> None:
    """A request whose draft pool is not written."""
    engine.request("writes", 8)
    (operation,) = [span for span in engine.made.spans if span.document["name"] == v.WRITE_STORE]
    told: dict[str, Any] = {v.OUTCOME: "failed", v.ERROR: "KeyError", v.ERROR_TEXT: "'draft'"} if raised else {v.OUTCOME: "declined"}
    pools = [*(["swa=8/8"] if whole else []), "draft=0/8"]
    engine.span(v.WRITE_POOLS, rid="writes", parent=operation, error=raised, attributes={**told, v.POOL_PAGES: pools, v.POOL_SHORT: "draft"})


def test_a_draft_write_that_raised(tmp_path: Path) -> None:
    """The engine goes on and logs it for debugging only: W15 with the exception, and no W14 beside it."""
    story = Story()
    drafted(story.engine(), raised=True)
    told = found(story, tmp_path)
    assert list(told) == ["HC-W15"]
    assert (told["HC-W15"].args["exception"], told["HC-W15"].rids) == ("KeyError", ["writes"])


@pytest.mark.parametrize(("told", "expected"), [({"raised": False}, ["HC-W14"]), ({"raised": True, "whole": True}, [])])
def test_a_draft_write_that_fell_short(tmp_path: Path, told: dict[str, Any], expected: list[str]) -> None:
    """Without an exception it is a side pool that was not written; one among several pools is no draft write of its own."""
    story = Story()
    drafted(story.engine(), **told)
    assert list(found(story, tmp_path)) == expected


def anchored(story: Story, *, objects: int, declined: bool = True) -> None:
    """An engine whose KV pool is only an anchor; OBJECTS of the side pools are put with the pages."""
    engine = story.engine()
    engine.span(v.BUFFER_POOL, attributes={v.OUTCOME: "declined" if declined else "ok", v.POOL: "kv", v.REASON: "A20" if declined else None})
    engine.request("writes", 8, writes=False)
    write = engine.span(v.WRITE_STORE, rid="writes", attributes={v.OUTCOME: "ok", v.OPERATION: 7, v.PAGES: 8, v.WRITTEN_TOKENS: 128})
    engine.span(v.STORE_PUT, rid="writes", parent=write, attributes={v.OUTCOME: "ok", v.OBJECTS: 8, v.OBJECTS_OK: objects, v.OBJECT_SUFFIXES: ["_0_deepseek_v4_c4"]})


def test_pages_that_count_as_written_without_an_object(tmp_path: Path) -> None:
    """The anchor has no buffer and no object came into the store: W16 with the pages."""
    story = Story()
    anchored(story, objects=0)
    told = found(story, tmp_path)["HC-W16"]
    assert (told.args["pages"], told.rids, told.level) == (8, ["writes"], "warning")


@pytest.mark.parametrize("told", [{"objects": 8}, {"objects": 0, "declined": False}])
def test_an_anchor_whose_side_pools_carry_the_data(tmp_path: Path, told: dict[str, Any]) -> None:
    """What the side pools put is what counts; a pool with a buffer is no anchor."""
    story = Story()
    anchored(story, **told)
    assert "HC-W16" not in found(story, tmp_path)


def waiting(story: Story, *, done: bool = False, reset: bool = False, closed: bool = True, sglang: str = "0.5.23") -> None:
    """A copy to the host that waits for the next flush of writes."""
    engine = story.engine(sglang=sglang)
    engine.request("writes", 8, writes=False)
    copied(engine, "writes", page_keys("a", "b", "c", "d"))
    if done:
        engine.span(v.WRITE_HOST_DONE, rid="writes", attributes={v.OUTCOME: "ok", v.NODE: 9, v.TOKENS: 64})
    if reset:
        engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 0})
    engine.made.ledger(closed=closed)


def test_a_write_that_was_put_off_when_the_process_ended(tmp_path: Path) -> None:
    """Never acknowledged, and the process ended in order: W18 with the tokens."""
    story = Story()
    waiting(story)
    told = found(story, tmp_path)["HC-W18"]
    assert (told.args["tokens"], told.args["nodes"], told.certain) == (64, 1, True)


@pytest.mark.parametrize("told", [{"done": True}, {"reset": True}, {"closed": False}, {"sglang": "0.5.14"}])
def test_a_write_that_was_not_put_off(tmp_path: Path, told: dict[str, Any]) -> None:
    """Acknowledged, dropped by a reset, perhaps still to come, or of a release that submits at once: no W18."""
    story = Story()
    waiting(story, **told)
    assert "HC-W18" not in found(story, tmp_path)


@pytest.mark.parametrize(("freed", "reason", "expected"), [(0, None, "HC-E02"), (128, None, None), (0, "E04", "HC-E04"), (0, "E01", None)])
def test_write_back_that_cannot_write(tmp_path: Path, freed: int, reason: str | None, expected: str | None) -> None:
    """A node found no host room and too little was freed: E02, once however often it is tried; E04 where the engine says so itself."""
    story = Story()
    engine = story.engine(controller={v.WRITE_POLICY: "write_back"})
    for _ in range(3):
        evict = engine.span(v.EVICT_DEVICE, attributes={v.OUTCOME: "ok", v.EVICT_ASKED: 128, v.EVICT_FREED: freed, v.EVICT_LOST: 0, v.REASON: reason})
        told = {v.OUTCOME: "declined", v.TOKENS: 96, v.WRITTEN_TOKENS: 0, v.WRITE_BACK: True, v.REASON: "W06"}
        engine.span(v.WRITE_BACKUP, parent=evict, attributes=told)
    judged = found(story, tmp_path)
    assert {code for code in judged if code.startswith("HC-E0")} == ({expected} if expected else set())
    if expected is not None:
        assert (judged[expected].args["tokens"], judged[expected].args["evictions"], judged[expected].level) == (96, 3, "warning")
