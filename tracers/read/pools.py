"""Readers of the calls that write, find and read the pools beside the KV pool (sliding window, Mamba, indexer, draft)."""

from typing import Any

from tracers.point import Args, Kwargs
from tracers.read.take import argument, outcome

KV = "kv"


def name(thing: Any) -> str:
    """A pool's name as a string (SGLang `mem_cache/hicache_storage.py`, PoolName)."""
    return str(getattr(thing, "value", thing))


def found(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_POOLS (mooncake_store.py, batch_exists_v2): the prefix is as long as the pool that reaches least far."""
    del state
    keys, transfers = argument(args, kwargs, 1, "keys", ()), argument(args, kwargs, 2, "pool_transfers") or ()
    if result is None:
        return (outcome(error), len(keys), None, None, None, None)
    reach = {name(pool): pages for pool, pages in result.extra_pool_hit_pages.items()}
    pages = result.kv_hit_pages
    kv = reach.get(KV, pages)
    asked = {KV: kv, **{name(transfer.name): reach.get(name(transfer.name), 0) for transfer in transfers}}
    short = next((pool for pool, reached in asked.items() if pool != KV and reached == pages < kv), None)
    told = [f"{pool}={reached}" for pool, reached in asked.items()]
    return (outcome(error, declined=pages < len(keys)), len(keys), pages, told, short, None)


def moved(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_POOLS and PREFETCH_POOLS_READ (batch_set_v2, batch_get_v2): pages that succeeded of each pool; on 0.5.14 nobody looks at them."""
    del state
    transfers = argument(args, kwargs, 1, "transfers") or ()
    answers = {name(pool): pages for pool, pages in (result or {}).items()}
    done = [(name(transfer.name), sum(map(bool, answers.get(name(transfer.name), ()))), len(transfer.keys or ())) for transfer in transfers]
    short = next((pool for pool, good, asked in done if good < asked), None)
    return (outcome(error, declined=short is not None), [f"{pool}={good}/{asked}" for pool, good, asked in done], short, None)
