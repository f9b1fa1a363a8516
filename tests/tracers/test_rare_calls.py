"""Rows of calls that the samples of the real engine do not have: eviction, attach and detach, abort, and the end of a client."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import workshop
from workshop import records

from tracers import vocabulary as v
from tracers.around import Recorder, wrap
from tracers.points import ALL
from tracers.read import mooncake

ROWS = {point.id: point for point in ALL}


class Hooked:
    """Rows of the tracers around functions of this test's own."""

    def __init__(self) -> None:
        self.recorder: Recorder = workshop.recorder()

    def wrap(self, name: str, function: Callable[..., Any], shape: int = 0) -> Callable[..., Any]:
        """FUNCTION, hooked as the row NAME reads its target number SHAPE."""
        point = ROWS[name]
        return wrap(point.at(point.targets[shape]), function, self.recorder)

    def told(self) -> list[dict[str, Any]]:
        """What was recorded: attributes by key, without those that are not told."""
        assert self.recorder.guard.texts == []
        found = [dict(zip(ROWS[record[0]].attributes, record[7], strict=True)) for record in records(self.recorder)]
        return [{key.rpartition(".")[2]: value for key, value in each.items() if value is not None} for each in found]


@pytest.fixture
def hooked() -> Hooked:
    """An empty desk."""
    return Hooked()


def test_an_eviction_counts_what_it_dropped_without_a_copy(hooked: Hooked) -> None:
    """Rows "evict.device" and "evict.dropped": tokens of nodes that had no host copy are counted for the eviction around them."""
    drop = hooked.wrap("evict.dropped", lambda _tree, node: node)

    def evict(tree: Any, params: Any) -> Any:
        drop(tree, 16), drop(tree, 32)
        return SimpleNamespace(num_tokens_evicted=params.num_tokens + 8)

    hooked.wrap("evict.device", evict)(object(), SimpleNamespace(num_tokens=40))
    hooked.wrap("evict.device", lambda _tree, _params: SimpleNamespace(num_tokens_evicted=1))(object(), SimpleNamespace(num_tokens=1))
    assert hooked.told() == [{"outcome": "ok", "asked": 40, "freed": 48, "unbacked": 48, "reason": "E01"}, {"outcome": "ok", "asked": 1, "freed": 1, "unbacked": 0}]


@pytest.mark.parametrize(("backed", "lost"), [(True, 0), (False, 5)])
def test_a_leaf_without_a_copy_is_lost(hooked: Hooked, backed: bool, lost: int) -> None:
    """Row "evict.leaf": whether a leaf had a host copy is read before it goes."""

    def go(_tree: Any, node: Any) -> None:
        node.key, node.backuped = (), False

    leave = hooked.wrap("evict.leaf", go)
    hooked.wrap("evict.device", lambda tree, _params: leave(tree, SimpleNamespace(key=range(5), backuped=backed)))(object(), SimpleNamespace(num_tokens=5))
    assert [each["unbacked"] for each in hooked.told()] == [lost]


def test_tokens_that_the_engine_itself_counts_as_dropped(hooked: Hooked) -> None:
    """From 0.5.23 on row "evict.dropped" takes the engine's own number and reason; nothing dropped is nothing to see."""
    drop = hooked.wrap("evict.dropped", lambda _tree, _dropped_tokens, _reason: None, 1)
    hooked.wrap("evict.device", lambda tree, _params: (drop(tree, 0, "x"), drop(tree, 7, "host_pressure")))(object(), SimpleNamespace(num_tokens=5))
    assert [(each["unbacked"], each["reason"]) for each in hooked.told()] == [(7, "E03")]


def test_a_node_that_may_not_be_dropped_is_told(hooked: Hooked) -> None:
    """Row "evict.subtree": where the host has no room and the node may not go, the eviction says so."""
    refuse = hooked.wrap("evict.subtree", lambda _tree, _node_id: False)
    hooked.wrap("evict.device", lambda tree, _params: refuse(tree, 1))(object(), SimpleNamespace(num_tokens=5))
    assert [each["reason"] for each in hooked.told()] == ["E04"]


def test_host_tokens_that_were_freed(hooked: Hooked) -> None:
    """Rows "evict.host" and "evict.host_freed": the tree's own number, else what the controller freed inside."""
    free = hooked.wrap("evict.host_freed", lambda _controller, host_indices: len(host_indices))
    hooked.wrap("evict.host", lambda _tree, _num_tokens: [free(object(), range(16))])(object(), 10)
    hooked.wrap("evict.host", lambda _tree, num_tokens: num_tokens)(object(), num_tokens=3)
    assert [(each["asked"], each["freed"]) for each in hooked.told()] == [(10, 16), (3, 3)]


def test_a_clear_tells_the_engine_s_answer(hooked: Hooked) -> None:
    """Row "evict.clear_storage": declined where the engine says false."""
    for answer in (True, False):
        hooked.wrap("evict.clear_storage", lambda _tree, answer=answer: answer)(object())
    assert [each["outcome"] for each in hooked.told()] == ["ok", "declined"]


@pytest.mark.parametrize(
    ("was", "answer", "reason", "outcome"),
    [((False, None), (True, "attached"), None, "ok"), ((True, "mooncake"), (True, "already"), "A12", "ok"), ((False, None), (False, "no such class"), "A11", "declined")],
)
def test_an_attach_at_run_time(hooked: Hooked, was: tuple[bool, str | None], answer: tuple[bool, str], reason: str | None, outcome: str) -> None:
    """Row "backend.attach_asked": the engine's own words, the names of the settings given but none of their values, and whether they were dropped."""
    tree = SimpleNamespace(enable_storage=was[0], cache_controller=SimpleNamespace(storage_backend_type=was[1], write_policy="write_through"))
    attach = hooked.wrap("backend.attach_asked", lambda _tree, _storage_backend, _extra=None: answer)
    attach(tree, "mooncake", '{"master_server_address": "secret:1"}')
    (told,) = hooked.told()
    assert (told["outcome"], told.get("reason"), told["message"], told["names"]) == (outcome, reason, answer[1], ["master_server_address"])
    assert "secret" not in str(told)


@pytest.mark.parametrize("name", ["backend.detach", "backend.check_server", "mooncake.close", "engine.warmup"])
def test_calls_of_which_only_the_end_is_told(hooked: Hooked, name: str) -> None:
    """Rows "backend.detach", "backend.check_server", "mooncake.close" and "engine.warmup": that they were called, and how it ended."""

    def fail(_thing: Any) -> None:
        raise ValueError("no server")

    hooked.wrap(name, lambda _thing: None)(object())
    with pytest.raises(ValueError, match="no server"):
        hooked.wrap(name, fail)(object())
    recorded = records(hooked.recorder)
    assert [record[7][0] for record in recorded] == ["ok", "failed"]
    assert recorded[1][8] == ("ValueError", "no server")


def test_an_abort_is_told_for_requests_with_a_prefetch(hooked: Hooked) -> None:
    """Row "prefetch.abort": a request that had no prefetch loses nothing and is not told."""
    abort = hooked.wrap("prefetch.abort", lambda _tree, rid: rid)
    tree = SimpleNamespace(ongoing_prefetch={"a": ()})
    assert (abort(tree, "a"), abort(tree, "b")) == ("a", "b")
    assert [record[5] for record in records(hooked.recorder)] == ["a"]


def test_a_range_that_is_taken_back_covers_nothing_more(hooked: Hooked) -> None:
    """Row "mooncake.unregister_buffer": the registered ranges are those that are in force, and a refusal changes none."""
    before = mooncake.ranges()
    register = hooked.wrap("mooncake.register_buffer", lambda _store, _ptr, _size: 0)
    for ptr in (1000, 2000):
        register(object(), ptr, 100)
    for ptr, code in ((1000, 0), (2000, -1)):
        hooked.wrap("mooncake.unregister_buffer", lambda _store, _ptr, code=code: code)(object(), ptr)
    assert set(mooncake.ranges()) - set(before) == {(2000, 2100)}
    assert [each["outcome"] for each in hooked.told()] == ["ok", "ok", "ok", "declined"]
    hooked.wrap("mooncake.unregister_buffer", lambda _store, _ptr: 0)(object(), 2000)
    assert mooncake.ranges() == before


def test_everything_that_is_removed_is_counted(hooked: Hooked) -> None:
    """Row "mooncake.remove_all": the number of objects, and whether leases were ignored."""
    remove = hooked.wrap("mooncake.remove_all", lambda _store, _force=False: 12)
    remove(object()), remove(object(), True)
    assert [(each["code"], each["force"]) for each in hooked.told()] == [(12, False), (12, True)]


ALL_PAGES, TRAILING = "all_pages", "trailing_pages"


@pytest.mark.parametrize(
    ("newest", "pools", "reach", "pages", "told", "short"),
    [
        (False, {"swa": TRAILING}, {"kv": 6, "swa": 6}, 6, ["kv=6", "swa=6"], None),
        (False, {"swa": TRAILING, "mamba": TRAILING}, {"kv": 6}, 0, ["kv=6", "swa=0"], "swa"),
        (False, {"c4": ALL_PAGES, "c128": ALL_PAGES}, {"kv": 6, "c4": 6, "c128": 5}, 5, ["kv=6", "c4=6", "c128=5"], "c128"),
        (False, {"c128": ALL_PAGES, "swa": TRAILING, "mamba": TRAILING}, {"kv": 6, "c128": 5, "swa": 6}, 0, ["kv=6", "c128=5", "swa=6", "mamba=0"], "mamba"),
        (True, {"c128": ALL_PAGES, "swa": TRAILING, "mamba": TRAILING}, {"kv": 6, "c128": 5, "swa": 6}, 0, ["kv=6", "c128=5", "swa=6"], "c128"),
        (True, {"swa": TRAILING, "mamba": TRAILING}, {"kv": 6, "swa": 6}, 0, ["kv=6", "swa=6", "mamba=0"], "mamba"),
    ],
)
def test_the_pool_that_shortens_a_prefix(
    hooked: Hooked, newest: bool, pools: dict[str, str], reach: dict[str, int], pages: int, told: list[str], short: str | None
) -> None:
    """Row "pools.find": how far each pool reaches, up to the one after which nothing is left; from 0.5.23 on a window may end behind another pool's reach."""
    answer = SimpleNamespace(kv_hit_pages=pages, extra_pool_hit_pages=reach, **({"restorable_prefix_pages": []} if newest else {}))
    transfers = [SimpleNamespace(name=name, hit_policy=policy) for name, policy in pools.items()]
    hooked.wrap("pools.find", lambda _store, _keys, _transfers: answer)(object(), list("abcdef"), transfers)
    (record,) = records(hooked.recorder)
    found = dict(zip(ROWS["pools.find"].attributes, record[7], strict=True))
    assert (found[v.FOUND_PAGES], found[v.POOL_PAGES], found[v.POOL_SHORT]) == (pages, told, short)


@pytest.mark.parametrize(
    ("hits", "late", "terminated", "reason"), [(0, False, True, "R17"), (0, True, True, "R18"), (3, False, False, "R12"), (400, False, False, "R14")]
)
def test_why_a_prefetch_is_given_up_before_a_page_was_read(hooked: Hooked, hits: int, late: bool, terminated: bool, reason: str) -> None:
    """Row "prefetch.revoke": what the policy ends at the first look has no answer of its lookup, which is no miss."""
    handle = ("a", 0)
    operation = SimpleNamespace(id=1, storage_hit_count=hits, deadline_expired=late, _terminated_flag=terminated, handle=handle)
    tree = SimpleNamespace(ongoing_prefetch={handle: SimpleNamespace(operation=operation)}, prefetch_threshold=256, _storage_prefetch_wait={})
    hooked.wrap("prefetch.revoke", lambda _tree, _request: None)(tree, handle)
    assert [each["reason"] for each in hooked.told()] == [reason]
