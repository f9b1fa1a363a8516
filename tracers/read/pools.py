"""Readers of the calls that write, find and read the pools beside the KV pool (sliding window, Mamba, indexer, draft)."""

from collections.abc import Callable
from typing import Any

from tracers.point import Args, Kwargs
from tracers.read.take import argument, outcome

KV = "kv"
TRAILING = "trailing_pages"


def name(thing: Any) -> str:
    """A pool's name as a string (SGLang `mem_cache/hicache_storage.py`, PoolName)."""
    return str(getattr(thing, "value", thing))


def short_pool(args: Args, kwargs: Kwargs, indices: str, free: Callable[[Any, Any], int | None]) -> str | None:
    """The pool beside KV that had no room, where an allocation failed although the KV pool has enough (hybrid_cache_controller.py).

    INDICES names what a transfer already has on the other side; FREE tells the room of a pool by its entry, of the KV pool by None.
    """
    controller, extra = args[0], argument(args, kwargs, 4, "extra_pools") or ()
    room = free(controller, None)
    if not extra or room is None or room < len(argument(args, kwargs, 1, indices)):
        return None
    entries = getattr(getattr(controller, "mem_pool_host", None), "entry_map", {})
    own = [(transfer, entries.get(transfer.name)) for transfer in extra if getattr(transfer, "indices_from_pool", None) is None]
    for transfer, entry in own:
        have, wanted = free(controller, entry) if entry is not None else None, getattr(transfer, indices, None)
        if have is not None and wanted is not None and have < len(wanted):
            return name(transfer.name)
    # The KV pool had enough, so it was one of the others: where there is only one, it is known which.
    return name(own[0][0].name) if len(own) == 1 else "a side pool"


def found(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_POOLS (mooncake_store.py, batch_exists_v2): the prefix is as long as all pools allow; none is looked at where nothing is left."""
    del state
    keys, transfers = argument(args, kwargs, 1, "keys", ()), argument(args, kwargs, 2, "pool_transfers") or ()
    if result is None:
        return (outcome(error), len(keys), None, None, None, None)
    reach = {name(pool): pages for pool, pages in result.extra_pool_hit_pages.items()}
    pages = result.kv_hit_pages
    kv = reach.get(KV, pages)
    # From 0.5.23 on the lengths that each pool allows are intersected: a window that ends behind another pool's reach leaves none.
    looked_at, short = _looked_at(transfers, reach, kv, holes=pages == 0 and getattr(result, "restorable_prefix_pages", None) is not None)
    told = [f"{KV}={kv}", *(f"{pool}={reach.get(pool, 0)}" for pool in looked_at)]
    return (outcome(error, declined=pages < len(keys)), len(keys), pages, told, short if pages < kv else None, None)


def _looked_at(transfers: Any, reach: dict[str, int], kv: int, *, holes: bool) -> tuple[list[str], str | None]:
    """The pools up to the one that left nothing, and the one that shortens the prefix: the answer leaves out pools that reach nowhere."""
    seen: list[str] = []
    least, short, empty = kv, None, kv == 0
    for transfer in transfers:
        pool = name(transfer.name)
        if empty and pool not in reach:
            break
        seen.append(pool)
        reached = reach.get(pool, 0)
        if reached < least:
            least, short = reached, pool
        empty = empty or reached == 0 or (holes and reached > least and name(transfer.hit_policy) == TRAILING)
    return seen, short


def moved(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_POOLS and PREFETCH_POOLS_READ (batch_set_v2, batch_get_v2): pages that succeeded of each pool; on 0.5.14 nobody looks at them."""
    del state
    transfers = argument(args, kwargs, 1, "transfers") or ()
    answers = {name(pool): pages for pool, pages in (result or {}).items()}
    done = [(name(transfer.name), sum(map(bool, answers.get(name(transfer.name), ()))), len(transfer.keys or ())) for transfer in transfers]
    short = next((pool for pool, good, asked in done if good < asked), None)
    return (outcome(error, declined=short is not None), [f"{pool}={good}/{asked}" for pool, good, asked in done], short, None)
