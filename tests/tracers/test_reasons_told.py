"""What rows tell so that a loss gets its reason: pools without room, quotas, namespaces, threads that stay, settings that were dropped."""

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_rare_calls import Hooked
from workshop import records

from tracers.read import prefetch, process
from tracers.read.take import in_force


@pytest.fixture
def hooked() -> Hooked:
    """An empty desk."""
    return Hooked()


class Pool:
    """A pool with so many tokens free."""

    def __init__(self, free: int) -> None:
        self.free = free

    def available_size(self) -> int:
        """Free tokens."""
        return self.free


def controller(kv: int, **pools: int) -> Any:
    """A controller whose KV pool and side pools have so much room, on host and device."""
    entries = {name: SimpleNamespace(host_pool=Pool(free), device_pool=Pool(free)) for name, free in pools.items()}
    host = Pool(kv)
    host.entry_map = entries  # type: ignore[attr-defined]
    return SimpleNamespace(mem_pool_host=host, mem_pool_device_allocator=Pool(kv))


def transfer(name: str, tokens: int, shares: str | None = None) -> Any:
    """A transfer of a side pool, or of one that shares the indices of another."""
    return SimpleNamespace(name=SimpleNamespace(value=name) if shares else name, device_indices=range(tokens), host_indices=range(tokens), indices_from_pool=shares)


ROOM = [
    (controller(64, mamba=0), [transfer("mamba", 1)], "mamba"),
    (controller(64, swa=64, mamba=0), [transfer("swa", 32), transfer("mamba", 1)], "mamba"),
    (controller(64, swa=64, mamba=64), [transfer("swa", 32), transfer("mamba", 1)], "a side pool"),
    (controller(64), [transfer("mamba", 1)], "mamba"),
    (controller(16, mamba=0), [transfer("mamba", 1)], None),
    (controller(64), [transfer("indexer", 32, "kv")], "a side pool"),
    (controller(64), None, None),
]


@pytest.mark.parametrize(("owner", "extra", "pool"), ROOM)
def test_a_write_names_the_pool_that_had_no_room(hooked: Hooked, owner: Any, extra: Any, pool: str | None) -> None:
    """Rows "write.backup" and "write.host_alloc": the KV pool had enough, so it was a side pool (W08); else the host itself (W06)."""
    alloc = hooked.wrap("write.host_alloc", lambda *_args, **_more: None)

    def backup(_tree: Any, node: Any) -> int:
        alloc(owner, node.value, node_id=1, extra_pools=extra)
        return 0

    node = SimpleNamespace(id=1, key=range(32), value=range(32), hash_value=None, parent=None, hit_count=1)
    hooked.wrap("write.backup", backup)(SimpleNamespace(root_node=None, cache_controller=owner), node)
    (told,) = hooked.told()
    assert (told.get("short"), told["reason"]) == (pool, "W08" if pool else "W06")


@pytest.mark.parametrize(("owner", "extra", "pool"), ROOM)
def test_a_load_names_the_pool_that_had_no_room(hooked: Hooked, owner: Any, extra: Any, pool: str | None) -> None:
    """Rows "load_back.load" and "load_back.device_alloc": a side pool on the device (L06), else the device itself (L05)."""
    alloc = hooked.wrap("load_back.device_alloc", lambda *_args, **_more: None)
    node = SimpleNamespace(id=1, key=range(32), evicted=True, parent=None)
    tree = SimpleNamespace(cache_controller=owner, load_back_threshold=10)
    hooked.wrap("load_back.load", lambda _tree, _node: alloc(owner, range(32), node_id=1, extra_pools=extra))(tree, node)
    (told,) = hooked.told()
    assert (told.get("short"), told["reason"]) == (pool, "L06" if pool else "L05")


def test_a_pool_that_had_room_at_the_second_try_is_not_named(hooked: Hooked) -> None:
    """An allocation that failed and went through after an eviction is none that failed."""
    owner, answers = controller(64, mamba=0), [None, range(32)]
    alloc = hooked.wrap("load_back.device_alloc", lambda *_args, **_more: answers.pop(0))

    def load(_tree: Any, _node: Any) -> Any:
        for _ in range(2):
            got = alloc(owner, range(32), extra_pools=[transfer("mamba", 1)])
        return got

    node = SimpleNamespace(id=1, key=range(32), evicted=True, parent=None)
    hooked.wrap("load_back.load", load)(SimpleNamespace(cache_controller=owner, load_back_threshold=10), node)
    (told,) = hooked.told()
    assert (told["outcome"], told.get("short"), told.get("reason")) == ("ok", None, None)


@pytest.mark.parametrize(("tokens", "quota", "reason"), [(32, 16, "L03"), (32, None, "L04"), (32, 64, "L04"), (8, 4, "L02")])
def test_a_load_over_its_quota(hooked: Hooked, tokens: int, quota: int | None, reason: str) -> None:
    """Row "load_back.load": the limit that the caller gave, after the minimum and before the device's room."""
    node = SimpleNamespace(id=1, key=range(tokens), evicted=True, parent=None)
    tree = SimpleNamespace(cache_controller=controller(64), load_back_threshold=10)
    hooked.wrap("load_back.load", lambda _tree, _node, _mem_quota=None: None)(tree, node, quota)
    (told,) = hooked.told()
    assert (told.get("quota"), told["reason"]) == (quota, reason)


@pytest.mark.parametrize(("evicts", "apart", "reason"), [(False, False, "L07"), (True, False, "L04"), (False, True, "L04")])
def test_a_load_that_may_move_nothing(hooked: Hooked, evicts: bool, apart: bool, reason: str) -> None:
    """Row "load_back.load" from 0.5.23 on: it neither evicted nor allocated; a pool that is asked for room before is no proof."""
    evict = hooked.wrap("evict.device", lambda _tree, _params: SimpleNamespace(num_tokens_evicted=0))
    allocator = SimpleNamespace(c128_attn_allocator=object() if apart else None)
    tree = SimpleNamespace(cache_controller=controller(64), load_back_threshold=10, tree_core=object(), token_to_kv_pool_allocator=allocator)

    def load(_tree: Any, _node_id: int, _quota: Any = None, _req: Any = None) -> bool:
        if evicts:
            evict(tree, SimpleNamespace(num_tokens=5))
        return False

    hooked.wrap("load_back.load", load, 2)(tree, 7, None, SimpleNamespace(host_hit_length=32))
    assert hooked.told()[-1]["reason"] == reason


@pytest.mark.parametrize(("answer", "reason"), [(None, "L09"), ((0, 7), None)])
def test_a_load_that_is_put_off(hooked: Hooked, answer: Any, reason: str | None) -> None:
    """Row "load_back.ask": no answer at all is that of the buffer mode; a number is one that came back empty."""
    params = SimpleNamespace(host_hit_length=32, req=SimpleNamespace(rid="a"))
    hooked.wrap("load_back.ask", lambda _tree, _params: answer, 1)(object(), params)
    (told,) = hooked.told()
    assert (told["outcome"], told.get("reason")) == ("declined", reason)


def request(**told: Any) -> Any:
    """A request with an extra key, a salt, or neither."""
    return SimpleNamespace(origin_input_ids=range(20), output_ids=(), rid="a", **told)


@pytest.fixture
def numbers() -> Iterator[dict[Any, int]]:
    """The numbers of extra keys, as in a process that has seen none."""
    kept = dict(prefetch._numbers)
    prefetch._numbers.clear()
    prefetch._numbers[None, None] = 0
    yield prefetch._numbers
    prefetch._numbers.clear()
    prefetch._numbers.update(kept)


def test_extra_keys_are_numbered_as_they_come(hooked: Hooked, numbers: dict[Any, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Row "request.queued": 0 for none, the same number for the same key, none beyond the bound; the key itself is not told."""
    monkeypatch.setattr(prefetch, "MOST_NAMESPACES", 3)
    queue = hooked.wrap("request.queued", lambda _scheduler, _req: None)
    asked = [{}, {"extra_key": "secret"}, {"cache_salt": "salt"}, {"extra_key": "secret"}, {"extra_key": "more"}, {"extra_key": None}]
    for each in asked:
        queue(SimpleNamespace(tree_cache=SimpleNamespace(page_size=16)), request(**each))
    told = hooked.told()
    assert [each.get("namespace") for each in told] == [0, 1, 2, 1, None, 0]
    assert len(numbers) == 3
    assert "secret" not in str(told)


@pytest.mark.parametrize(("overrides", "variable", "expected"), [(None, False, None), (None, True, "SGLANG_RADIX_FORCE_MISS"), (object(), False, "positional_embed_overrides")])
def test_what_switches_matching_off(monkeypatch: pytest.MonkeyPatch, overrides: Any, variable: bool, expected: str | None) -> None:
    """Row "prefetch.gate": the request's own overrides, or the variable as the engine itself reads it; a release without it says nothing."""
    assert prefetch.match_off(SimpleNamespace(positional_embed_overrides=None)) is None
    module = ModuleType(prefetch.ENVIRONMENT)
    module.envs = SimpleNamespace(SGLANG_RADIX_FORCE_MISS=SimpleNamespace(get=lambda: variable))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, prefetch.ENVIRONMENT, module)
    assert prefetch.match_off(SimpleNamespace(positional_embed_overrides=overrides)) == expected


def test_threads_that_a_detach_left(hooked: Hooked) -> None:
    """Row "backend.detach": which threads run on, and that storage is on; after one that went through, none."""
    alive = SimpleNamespace(is_alive=lambda: True)
    owner = SimpleNamespace(enable_storage=True, backup_thread=alive, prefetch_thread=SimpleNamespace(is_alive=lambda: False))

    def fail(_controller: Any) -> None:
        raise RuntimeError("Stop storage threads failed; detach aborted.")

    with pytest.raises(RuntimeError, match="aborted"):
        hooked.wrap("backend.detach", fail)(owner)
    hooked.wrap("backend.detach", lambda _controller: None)(SimpleNamespace(enable_storage=False, backup_thread=alive))
    found = [record[7] for record in records(hooked.recorder)]
    assert [each[:3] for each in found] == [("failed", ["backup_thread"], True), ("ok", None, False)]


@pytest.mark.parametrize("on", [True, False])
def test_an_attach_tells_whether_storage_is_on_after_it(hooked: Hooked, on: bool) -> None:
    """Row "backend.attach": one that failed may leave its threads behind."""

    def fail(_controller: Any, _backend: str) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        hooked.wrap("backend.attach", fail)(SimpleNamespace(enable_storage=on), "mooncake")
    assert [record[7][5] for record in records(hooked.recorder)] == [on]


def test_a_setup_tells_the_names_of_its_settings(hooked: Hooked) -> None:
    """Row "mooncake.setup": names alone, so that one that was dropped is seen; none where none was given."""
    setup = hooked.wrap("mooncake.setup", lambda *_args, **_more: 0)
    setup(object(), "host", "P2PHANDSHAKE", 1, 1, "tcp", "", "m:1", None, ssd_offload_path="/secret", enable_ssd_offload=True)
    setup(object(), "host", "P2PHANDSHAKE", 1, 1, "tcp", "", "m:1", None)
    assert [each.get("names") for each in hooked.told()] == [["enable_ssd_offload", "ssd_offload_path"], None]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"has_draft": True, "enable_storage": True, "draft_page_set_func": None}, False),
        ({"has_draft": True, "enable_storage": True, "draft_page_set_func": print}, True),
        ({"has_draft": False, "enable_storage": True, "draft_page_set_func": None}, None),
        ({"has_draft": True, "enable_storage": False, "draft_page_set_func": None}, None),
        ({"has_draft": True, "enable_storage": True}, None),
    ],
)
def test_whether_a_draft_model_is_stored(told: dict[str, Any], expected: bool | None) -> None:
    """Row "engine.built": a release that stores it with the other pools has no function of its own, and says nothing."""
    assert process._draft_stored(SimpleNamespace(**told)) is expected


@pytest.mark.parametrize(("layout", "backend", "expected"), [("layer_first", "mooncake", ["layer_first"]), ("page_first", "mooncake", []), ("layer_first", None, [])])
def test_a_layout_that_may_not_be_taken(hooked: Hooked, layout: str, backend: str | None, expected: list[str]) -> None:
    """Row "engine.settings": told before it is replaced, and only where there is a storage backend."""

    def fit(asked: Any) -> None:
        asked.hicache_mem_layout = "page_first"

    hooked.wrap("engine.settings", fit)(SimpleNamespace(hicache_mem_layout=layout, hicache_storage_backend=backend))
    assert [each["asked"] for each in hooked.told()] == expected


def test_a_setting_that_was_decided_beside_what_was_asked() -> None:
    """Rows "engine.start" and "engine.built": the last decision counts, then the raw input (0.5.23 `arg_groups/overrides.py`, resolution_result)."""
    decided = [("first", {"page_size": 32}), ("other", {"device": "cpu"}), ("last", {"page_size": 64})]
    asked = SimpleNamespace(page_size=None, hicache_mem_layout="layer_first", _resolved_overrides=decided)
    assert [in_force(asked, name) for name in ("page_size", "device", "hicache_mem_layout", "none such")] == [64, "cpu", "layer_first", None]


def test_buffers_that_were_not_registered(hooked: Hooked) -> None:
    """Row "disaggregation.register": buffers, bytes and code; the limit of locked memory where it failed."""
    answers = [0, -1]
    register = hooked.wrap("disaggregation.register", lambda _engine, _ptrs, _lengths: answers.pop(0))
    for _ in range(2):
        register(object(), [1, 2], [16, 32])
    good, bad = hooked.told()
    assert (good["outcome"], good["code"], good["objects"], good["bytes"], "limit" in good) == ("ok", 0, 2, 48, False)
    assert (bad["outcome"], bad["code"], "limit" in bad) == ("declined", -1, True)
