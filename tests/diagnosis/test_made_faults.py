"""Faults that need a GPU or RDMA, on recordings made by hand from the vocabulary."""

from pathlib import Path
from typing import Any

import pytest
from stories import Story

from hicachectl.diagnosis.finding import Finding
from tracers import vocabulary as v


def found(story: Story, folder: Path) -> dict[str, Finding]:
    """Findings by code."""
    return {each.code: each for each in story.judged(folder).findings}


@pytest.mark.parametrize("limit", [8 << 20, -1])
def test_f40_a_registration_is_refused(tmp_path: Path, limit: int) -> None:
    """The backend does not exist: the code, the bytes, and the limit of locked memory where that is what they ran into."""
    story = Story()
    story.engine(register={v.OUTCOME: "declined", v.CODE: -600, v.BYTES: 1 << 30, v.MEMLOCK: limit})
    judged = story.judged(tmp_path)
    first = judged.findings[0]
    assert (first.code, first.certain) == ("HC-A20", True)
    assert (first.args["code"], first.args["bytes"], first.args["limit"]) == (-600, 1 << 30, limit)
    assert ("may lock 8388608 bytes" in first.title) == (limit > 0)
    assert next(iter(judged.world.engines.values())).backend_state()[0] == "no"


def test_f41_pointers_that_no_registered_range_covers(tmp_path: Path) -> None:
    """Over RDMA these fail: how many, the first address, and how many ranges there are."""
    story = Story()
    engine = story.engine()
    engine.request("fine", 8)
    engine.span(v.STORE_GET, rid="bad", attributes={v.OUTCOME: "ok", v.OBJECTS: 4, v.OBJECTS_OK: 4, v.RANGES: 1, v.UNCOVERED: 3, v.FIRST_UNCOVERED: 65536})
    told = found(story, tmp_path)["HC-A20"]
    assert (told.args["buffers"], told.args["puts"], told.args["gets"], told.args["address"], told.args["ranges"]) == (3, 0, 3, 65536, 1)
    assert told.level == "warning"


def test_f41_covered_pointers_are_no_finding(tmp_path: Path) -> None:
    """All buffers lie inside what was registered."""
    story = Story()
    story.engine().request("fine", 8)
    assert found(story, tmp_path) == {}


def test_f42_a_host_page_is_freed_under_its_copy(tmp_path: Path) -> None:
    """An eviction takes a node between the start of its copy and the event: the node is named; the same eviction afterwards is nothing."""
    story = Story()
    engine = story.engine()
    engine.span(v.LOAD_BACK_START, attributes={v.OUTCOME: "ok", v.PRODUCER: 1, v.NODES: [7, 8], v.TOKENS: 64})
    evict = engine.span(v.EVICT_HOST, attributes={v.OUTCOME: "ok", v.EVICT_ASKED: 32, v.EVICT_FREED: 32, v.NODES: [8]})
    engine.span(v.LOAD_BACK_DONE, attributes={v.OUTCOME: "ok", v.NODES: [7, 8], v.TOKENS: 64})
    engine.span(v.EVICT_HOST, attributes={v.OUTCOME: "ok", v.EVICT_ASKED: 32, v.EVICT_FREED: 32, v.NODES: [7]})
    told = found(story, tmp_path)["HC-E05"]
    assert (told.args["node"], told.args["tokens"], told.certain) == (8, 32, True)
    assert evict.span_id in told.evidence


def test_f42_a_reset_frees_what_a_copy_reads(tmp_path: Path) -> None:
    """A flush comes between the start of a copy and its event: what was dropped is counted."""
    story = Story()
    engine = story.engine()
    engine.span(v.LOAD_BACK_START, attributes={v.OUTCOME: "ok", v.PRODUCER: 1, v.NODES: [7], v.TOKENS: 64})
    engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 1})
    told = found(story, tmp_path)["HC-E07"]
    assert (told.args["loads"], told.args["prefetches"], told.args["backups"]) == (1, 0, 0)


def test_a_flush_of_what_was_done_and_not_acknowledged_loses_nothing(tmp_path: Path) -> None:
    """The engine counts a backup as in flight that the thread had written: no finding."""
    story = Story()
    engine = story.engine()
    engine.request("writes", 8)
    engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 1})
    assert found(story, tmp_path) == {}


def test_f43_one_rank_does_not_end_its_prefetch(tmp_path: Path) -> None:
    """All ranks have read; one ends the prefetch, the other stands in the check: the rank is named, and how long."""
    story = Story()
    ranks = [story.engine(tp_rank=rank, tp_size=2) for rank in range(2)]
    for rank in ranks:
        rank.made.ledger(ppid=77)
        rank.request("writes", 8)
    ranks[0].request("again", 8, prompt="writes", hit=8)
    ranks[1].request("again", 8, prompt="writes", hit=8, finish=False)
    story.now += 4000
    ranks[0].span(v.FLUSH, attributes={v.OUTCOME: "declined"})
    told = found(story, tmp_path)["HC-R19"]
    assert (told.args["rank"], told.args["ended"], told.rids) == (1, False, ["again"])
    assert told.args["notice_ms"] >= 4000


@pytest.mark.parametrize("pool", ["swa", "mamba", "indexer"])
def test_f44_a_side_pool_is_never_written(tmp_path: Path, pool: str) -> None:
    """Registered, and no put has an object of it, while the main pool is written: the pool is named."""
    story = Story()
    engine = story.engine()
    engine.span(v.BUFFER_POOL, attributes={v.OUTCOME: "ok", v.POOL: pool})
    engine.request("writes", 8)
    told = found(story, tmp_path)["HC-W14"]
    assert (told.args["pool"], told.args["code"], told.args["gets"]) == (pool, "never put", 0)


@pytest.mark.parametrize(("pool", "suffix"), [("swa", "_0_swa_k"), ("mamba", "_0_temporal"), ("indexer", "__indexer")])
def test_f44_a_side_pool_that_is_written_is_no_finding(tmp_path: Path, pool: str, suffix: str) -> None:
    """A put with an object of the pool."""
    story = Story()
    engine = story.engine()
    engine.span(v.BUFFER_POOL, attributes={v.OUTCOME: "ok", v.POOL: pool})
    engine.request("writes", 8)
    engine.span(v.STORE_PUT, rid="writes", attributes={v.OUTCOME: "ok", v.OBJECTS: 1, v.OBJECTS_OK: 1, v.OBJECT_SUFFIXES: [suffix], v.PAGE_KEYS: "a" * 64})
    assert "HC-W14" not in found(story, tmp_path)


def test_f44_the_write_of_a_side_pool_fails(tmp_path: Path) -> None:
    """The KV pages are written and count as done: the pool, the code of its first object, and the request are named."""
    story = Story()
    engine = story.engine()
    engine.request("writes", 8, unwritten=("swa", -200))
    told = found(story, tmp_path)["HC-W14"]
    assert (told.args["pool"], told.args["code"], told.args["pages"], told.rids) == ("swa", -200, ["swa=0/8"], ["writes"])


SHARED = {v.ENGINE_EXISTS: True, v.ENGINE_DEVICE: "mlx5_0"}


@pytest.mark.parametrize(
    ("told", "condition"),
    [
        ({"opened": {**SHARED, v.ENGINE_DEVICE: "(none)"}, "config": {v.DEVICE_NAME: ""}}, "device_name is empty, the engine's device is (none)"),
        ({"opened": SHARED, "config": {v.DEVICE_NAME: "mlx5_1"}}, "device_name is mlx5_1, the engine's device is mlx5_0"),
        ({"opened": SHARED, "config": {v.METADATA: "http://meta:8080"}}, "the metadata server is http://meta:8080, not P2PHANDSHAKE"),
        ({"opened": {**SHARED, v.PROTOCOL: "nvlink"}}, "the protocol is nvlink, not rdma"),
    ],
)
def test_f45_the_engine_is_not_shared(tmp_path: Path, told: dict[str, Any], condition: str) -> None:
    """The first of the conditions that did not hold is named."""
    story = Story()
    story.engine(**told)
    first = found(story, tmp_path)["HC-A05"]
    assert (first.args["condition"], first.level) == (condition, "warning")


@pytest.mark.parametrize(
    "told",
    [
        {"opened": {v.ENGINE_EXISTS: False}},
        {"opened": {**SHARED, v.ENGINE_SHARED: True}},
        {"opened": {**SHARED, v.PROTOCOL: "tcp"}, "setup": {v.PROTOCOL: "tcp", v.PROTOCOL_IN_USE: "tcp"}},
        {"opened": {**SHARED, v.ENGINE_DEVICE: "(none)"}, "setup": {v.PROTOCOL_IN_USE: "tcp", v.RDMA_DEVICES: 0}},
    ],
)
def test_f45_nothing_to_share_is_no_finding(tmp_path: Path, told: dict[str, Any]) -> None:
    """No engine, a shared one, or TCP, asked for or fallen back to."""
    story = Story()
    story.engine(**told)
    assert "HC-A05" not in found(story, tmp_path)


def test_a_get_that_hangs_is_said_while_it_waits(tmp_path: Path) -> None:
    """The ledger tells a get that has not returned; the master's side has told where the object lies."""
    story = Story()
    engine = story.engine(threshold=64)
    engine.request("writes", 8).request("again", 8, prompt="writes", hit=8, transfer=False, finish=False)
    key = f"{engine.keys('writes', 1)[0]}_0_k"
    since = story.recording.epoch_ms + 100
    engine.made.ledger(closed=False, seen_ms=since + 9000, running=[f"{since} again {key}"])
    engine.span(v.STORE_REPLICA, attributes={v.OBJECT_KEYS: [key], v.REPLICA: "10.0.0.7:17812"})
    told = found(story, tmp_path)["HC-R102"]
    assert (told.args["since_ms"], told.args["seconds"], told.args["endpoint"], told.rids) == (since, 9.0, "10.0.0.7:17812", ["again"])
    assert told.level == "error"


def test_a_get_that_failed_names_the_owner(tmp_path: Path) -> None:
    """The master's side told where the object lies: R15 says it with the number."""
    story = Story()
    engine = story.engine().request("writes", 8)
    key = f"{engine.keys('writes', 3)[2]}_0_k"
    engine.request("again", 8, prompt="writes", hit=8, done=2, bad_get={4: -800})
    engine.span(v.STORE_REPLICA, attributes={v.OBJECT_KEYS: [key], v.REPLICA: "10.0.0.7:17812"})
    told = found(story, tmp_path)["HC-R15"]
    assert (told.args["code"], told.args["page"], told.args["key"], told.args["endpoint"]) == (-800, 2, key, "10.0.0.7:17812")


def test_a_get_that_has_just_begun_is_no_finding(tmp_path: Path) -> None:
    """Two seconds are no hang; nor is what a closed ledger tells."""
    story = Story()
    engine = story.engine()
    since = story.recording.epoch_ms + 100
    engine.made.ledger(closed=False, seen_ms=since + 2000, running=[f"{since} again key"])
    assert "HC-R102" not in found(story, tmp_path)
