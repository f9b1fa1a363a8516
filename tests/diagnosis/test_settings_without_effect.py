"""Settings that had no effect, and attaches that stopped half way, on recordings made by hand."""

from pathlib import Path
from typing import Any

import pytest
from recordings import MadeSpan
from stories import Serving, Story

from hicachectl.diagnosis.finding import Finding
from tracers import vocabulary as v


def found(story: Story, folder: Path) -> dict[str, Finding]:
    """Findings by code."""
    return {each.code: each for each in story.judged(folder).findings}


@pytest.mark.parametrize(
    ("given", "rank", "reason"),
    [
        ('{"1": "mlx5_1"}', 0, "has no entry for this rank"),
        ('{"0": ""}', 0, "has no entry for this rank"),
        (' {"0": "mlx5_0"', 0, "is not JSON"),
        ('{"0": "mlx5_0"}', 1, "has no entry for this rank"),
        ('{"0": "mlx5_0"}', 0, None),
        ("mlx5_0", 0, None),
        ("", 0, None),
    ],
)
def test_a_map_of_devices_has_an_entry_for_the_rank(tmp_path: Path, given: str, rank: int, reason: str | None) -> None:
    """A08 says whether the map lacks the rank or is no map; one name for all ranks is no finding."""
    story = Story()
    story.engine(tp_rank=rank, tp_size=2, config={v.DEVICE_NAME: given})
    told = found(story, tmp_path).get("HC-A08")
    assert (told.args["reason"] if told else None) == reason
    if told is not None:
        assert (told.args["rank"], told.level, told.certain) == (rank, "warning", True)


@pytest.mark.parametrize(("tree", "expected"), [("RadixCacheCpp", ["HC-A16"]), ("HiRadixCache", [])])
def test_a_tree_that_has_no_storage(tmp_path: Path, tree: str, expected: list[str]) -> None:
    """A backend was asked for and the experimental tree was built: A16 with the backend's name."""
    story = Story()
    engine = story.engine(backend=False)
    engine.span(v.ENGINE, attributes={v.OUTCOME: "ok", v.TREE: tree, v.PAGE_SIZE: 16})
    told = found(story, tmp_path)
    assert list(told) == expected
    assert all(each.args["backend"] == "mooncake" and each.certain for each in told.values())


@pytest.mark.parametrize(("message", "expected"), [("Host cache is not supported yet", ["HC-A16"]), ("no such model", [])])
def test_a_tree_that_refuses_a_host_cache(tmp_path: Path, message: str, expected: list[str]) -> None:
    """With the hierarchical cache on, the experimental tree ends the scheduler in its own words."""
    story = Story()
    engine = story.engine(backend=False)
    engine.span(v.ENGINE, error=True, attributes={v.OUTCOME: "failed", v.ERROR: "NotImplementedError", v.ERROR_TEXT: message})
    told = found(story, tmp_path)
    assert list(told) == expected
    assert all(each.args["started"] is False for each in told.values())


CREATE: dict[str, Any] = {v.OUTCOME: "ok", v.BACKEND: "mooncake", v.BACKEND_CLASS: "MooncakeStore", v.TP_RANK: 0, v.TP_SIZE: 2}


@pytest.mark.parametrize(
    ("create", "layout", "reason"),
    [
        ({v.LCM_SIZE: 4}, "page_first", "the host memory layout is page_first, not page_head"),
        ({v.LCM_SIZE: 4, v.REPLICATED: True}, "page_head", "every rank of this model holds the same KV"),
        ({v.LCM_SIZE: 4, v.LAYOUT_SPLIT: True}, "page_head", None),
        ({v.LCM_SIZE: 2}, "page_first", None),
        ({}, "page_first", None),
    ],
)
def test_heads_that_are_not_split(tmp_path: Path, create: dict[str, Any], layout: str, reason: str | None) -> None:
    """A18 says which condition does not hold; a size that is this engine's own has nothing to split."""
    story = Story()
    engine = story.engine(tp_size=2, controller={v.MEM_LAYOUT: layout})
    engine.span(v.BACKEND_CREATE, attributes={**CREATE, v.LAYOUT_SPLIT: False, **create})
    told = found(story, tmp_path).get("HC-A18")
    assert (told.args["reason"] if told else None) == reason


def setup(engine: Serving, *names: str, refused: bool = False) -> MadeSpan:
    """A setup of the store client with settings beside the usual ones."""
    told: dict[str, Any] = {v.OUTCOME: "failed", v.ERROR: "TypeError"} if refused else {v.OUTCOME: "ok", v.CODE: 0}
    return engine.span(v.STORE_SETUP, error=refused, attributes={**told, v.NAMES: list(names) or None})


def test_a_setting_that_the_client_does_not_take(tmp_path: Path) -> None:
    """Refused with TypeError, and set up again without it: A04 with its name, and the backend serves."""
    story = Story()
    engine = story.engine()
    refused, again = setup(engine, "enable_ssd_offload", "ssd_offload_path", refused=True), setup(engine, "enable_ssd_offload")
    told = found(story, tmp_path)["HC-A04"]
    assert (told.args["dropped"], told.evidence, told.certain) == ("ssd_offload_path", [refused.span_id, again.span_id], True)
    assert story.judged(tmp_path / "again").world.engines[engine.made.id].backend_state()[0] == "yes"


def test_settings_that_the_client_takes_are_no_finding(tmp_path: Path) -> None:
    """One setup with settings, and a second attach without them."""
    story = Story()
    engine = story.engine()
    setup(engine, "enable_ssd_offload"), setup(engine)
    assert "HC-A04" not in found(story, tmp_path)


@pytest.mark.parametrize(("on", "mended", "level"), [(True, False, "error"), (True, True, "warning"), (False, False, None)])
def test_an_attach_that_fails_behind_its_threads(tmp_path: Path, on: bool, mended: bool, level: str | None) -> None:
    """A pool's registration raised after the threads had been started: A13 with the pool, a warning once an attach went through."""
    story = Story()
    engine = story.engine()
    at = story.now
    engine.made.span(v.BUFFER_POOL, at + 1, at + 2, error=True, attributes={v.OUTCOME: "failed", v.POOL: "indexer"})
    engine.span(v.BACKEND_ATTACH, took=5, error=True, attributes={v.OUTCOME: "failed", v.BACKEND: "mooncake", v.STORAGE_ON: on, v.ERROR_TEXT: "no room"})
    if mended:
        engine.span(v.BACKEND_ATTACH, attributes={v.OUTCOME: "ok", v.BACKEND: "mooncake", v.STORAGE_ON: True})
    told = found(story, tmp_path).get("HC-A13")
    assert (told.level if told else None) == level
    assert told is None or (told.args["pool"], told.args["reason"]) == ("indexer", "no room")


def test_an_engine_that_ends_with_its_attach_is_not_half_way(tmp_path: Path) -> None:
    """Where the whole scheduler failed, no thread of it runs on."""
    story = Story()
    engine = story.engine()
    engine.span(v.BACKEND_ATTACH, error=True, attributes={v.OUTCOME: "failed", v.BACKEND: "mooncake", v.STORAGE_ON: True})
    engine.span(v.ENGINE, error=True, attributes={v.OUTCOME: "failed"})
    assert "HC-A13" not in found(story, tmp_path)


@pytest.mark.parametrize(("mended", "level"), [(False, "error"), (True, "warning")])
def test_a_detach_whose_thread_does_not_end(tmp_path: Path, mended: bool, level: str) -> None:
    """A14 with the thread and how long it was waited for; a second detach that went through makes it a warning."""
    story = Story()
    engine = story.engine()
    engine.span(v.BACKEND_DETACH, took=10_000, error=True, attributes={v.OUTCOME: "failed", v.NAMES: ["backup_thread"], v.STORAGE_ON: True})
    if mended:
        engine.span(v.BACKEND_DETACH, attributes={v.OUTCOME: "ok", v.STORAGE_ON: False})
    told = found(story, tmp_path)["HC-A14"]
    assert (told.args["thread"], told.args["seconds"], told.level) == ("backup_thread", 10, level)


@pytest.mark.parametrize("again", [None, v.RESET, v.BACKEND_ATTACH])
def test_requests_behind_a_detach_that_stopped_half_way(tmp_path: Path, again: str | None) -> None:
    """Nothing is looked up or written for them: A14 names them and takes the loss; where a reset or an attach started the threads anew, it does not."""
    story = Story()
    engine = story.engine().request("before", 8)
    engine.span(v.BACKEND_DETACH, took=10_000, error=True, attributes={v.OUTCOME: "failed", v.NAMES: ["prefetch_io_aux_thread"], v.STORAGE_ON: True})
    if again:
        engine.span(again, attributes={v.OUTCOME: "ok"})
    engine.request("reads", 8, prompt="before", lookup=False, writes=False)
    told = story.judged(tmp_path)
    reads = next(row for row in told.requests if row.journey.attempt.rid == "reads")
    assert [(loss.code, loss.tokens) for loss in reads.lost] == [("HC-R09" if again else "HC-A14", 128)]
    assert told.findings[0].rids == ([] if again else ["reads"])


@pytest.mark.parametrize(("alive", "code"), [("prefetch_io_aux_thread", "HC-A14"), ("prefetch_thread", "HC-R18")])
def test_a_lookup_that_was_given_up_behind_a_detach(tmp_path: Path, alive: str, code: str) -> None:
    """Given up at the deadline: A14 where its thread had ended, and the engine's own reason where the thread still hung."""
    story = Story()
    engine = story.engine().request("before", 8)
    engine.span(v.BACKEND_DETACH, took=10_000, error=True, attributes={v.OUTCOME: "failed", v.NAMES: [alive], v.STORAGE_ON: True})
    engine.request("reads", 8, prompt="before", lookup=False, writes=False)
    engine.span(v.PREFETCH_REVOKE, rid="reads", attributes={v.OUTCOME: "declined", v.REASON: "R18"})
    reads = next(row for row in story.judged(tmp_path).requests if row.journey.attempt.rid == "reads")
    assert [loss.code for loss in reads.lost] == [code]


@pytest.mark.parametrize(("stored", "split", "reason"), [(False, True, "its heads are split (tp_lcm_size)"), (False, False, "backend mooncake takes no draft pool"), (True, False, None), (None, True, None)])
def test_a_draft_model_that_has_no_way_to_the_store(tmp_path: Path, stored: bool | None, split: bool, reason: str | None) -> None:
    """A17 with the reason; no draft model, or one that is stored, is no finding."""
    story = Story()
    engine = story.engine()
    engine.span(v.BACKEND_CREATE, attributes={**CREATE, v.TP_SIZE: 1, v.LAYOUT_SPLIT: split})
    engine.span(v.ENGINE, attributes={v.OUTCOME: "ok", v.TREE: "HiRadixCache", v.DRAFT_STORED: stored})
    told = found(story, tmp_path).get("HC-A17")
    assert (told.args["reason"] if told else None) == reason


def started(story: Story, *layouts: str, used: str = "page_first_direct") -> None:
    """A process that was asked for layouts, one engine after the other, and the last of its engines."""
    parent = story.recording.engine(pid=77, scheduler=False)
    for layout in layouts:
        parent.span(v.SETTINGS, story.now, attributes={v.OUTCOME: "ok", v.MEM_LAYOUT_ASKED: layout})
        story.now += 10
    engine = story.engine(started={v.MEM_LAYOUT: used, v.IO_BACKEND: "direct"})
    engine.made.ledger(ppid=77)


def test_a_layout_that_the_backend_does_not_take(tmp_path: Path) -> None:
    """layer_first was asked for and the scheduler has another: A15 with the one in use."""
    story = Story()
    started(story, "layer_first")
    told = found(story, tmp_path)["HC-A15"]
    assert (told.args["layout"], told.args["asked"], told.level, told.certain) == ("page_first_direct", "layer_first", "warning", True)


@pytest.mark.parametrize(("layouts", "used"), [((), "page_first_direct"), (("layer_first",), "layer_first")])
def test_a_layout_that_stays(tmp_path: Path, layouts: tuple[str, ...], used: str) -> None:
    """Nothing was asked that does not fit, or it is in use all the same: no A15."""
    story = Story()
    started(story, *layouts, used=used)
    assert "HC-A15" not in found(story, tmp_path)


@pytest.mark.parametrize(("code", "expected"), [(-1, True), (0, False)])
def test_buffers_of_a_disaggregated_engine(tmp_path: Path, code: int, expected: bool) -> None:
    """The Transfer Engine refused them and the engine went on: A21 with their number, the code and the limit of locked memory."""
    story = Story()
    engine = story.engine()
    engine.span(v.PD_REGISTER, attributes={v.OUTCOME: "declined" if code else "ok", v.CODE: code, v.OBJECTS: 64, v.BYTES: 1 << 30, v.MEMLOCK: 65536 if code else None})
    told = found(story, tmp_path).get("HC-A21")
    assert (told is not None) == expected
    assert told is None or (told.args["buffers"], told.args["code"], told.args["limit"], told.level) == (64, -1, 65536, "warning")
