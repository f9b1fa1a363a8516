"""Readers of eviction, flush, reset and clear."""

from typing import Any

from tracers import carry
from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, number, outcome


def device(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """EVICT_DEVICE (evict of both trees): asked, freed, and dropped without a host copy."""
    del state
    params = argument(args, kwargs, 1, "params")
    freed = number(result, "num_tokens_evicted")
    lost = carry.noted("unbacked", 0)
    reason = None
    if lost:
        reason = "E03" if carry.noted("why") == "host_pressure" else "E01"
    elif carry.noted("declined"):
        reason = "E04"
    carry.pass_on(evicted=True)
    return (outcome(error), number(params, "num_tokens"), freed, lost, reason)


def dropped(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Count for EVICT_DEVICE: a node left the device without a host copy (hiradix_cache.py, _evict_regular)."""
    del args, kwargs, state
    if error is None and isinstance(result, int):
        carry.add("unbacked", result)


def before_leaf(args: Args, kwargs: Kwargs) -> Any:
    """Whether a leaf of the unified tree has a host copy before it goes."""
    node = argument(args, kwargs, 1, "node")
    return 0 if getattr(node, "backuped", False) else len(getattr(node, "key", ()) or ())


def leaf(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Count for EVICT_DEVICE: the unified tree's own leaf eviction (unified_radix_cache.py, _evict_device_leaf)."""
    del args, kwargs, result
    if error is None and state:
        carry.add("unbacked", state)


def record_dropped(args: Args, kwargs: Kwargs) -> Any:
    """Runs for every node that is evicted: one comparison whether tokens were dropped (unified_radix_cache.py, _record_dropped_tokens)."""
    tokens = argument(args, kwargs, 1, "dropped_tokens", 0)
    if tokens > 0:
        carry.add("unbacked", tokens)
        carry.note("why", argument(args, kwargs, 2, "reason"))
    return SKIP


def subtree_dropped(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Note for EVICT_DEVICE: write_back found no host room and may not drop the node either (_drop_subtree_no_host)."""
    del args, kwargs, state
    if result is False and error is None:
        carry.note("declined", True)


def host(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """EVICT_HOST (evict_host of both trees)."""
    del state
    return (outcome(error), argument(args, kwargs, 1, "num_tokens"), result if isinstance(result, int) else carry.noted("host_freed", None))


def host_freed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Count for EVICT_HOST: tokens that the controller freed (cache_controller.py, evict_host)."""
    del args, kwargs, state
    if error is None and isinstance(result, int):
        carry.add("host_freed", result)


def flushed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """FLUSH (scheduler.py, flush_cache): false where the engine was not idle."""
    del args, kwargs, state
    return (outcome(error, declined=result is False),)


def before_reset(args: Args, kwargs: Kwargs) -> Any:
    """Prefetches, backups and copies that a reset drops."""
    del kwargs
    tree = args[0]
    return sum(len(getattr(tree, name, ()) or ()) for name in ("ongoing_prefetch", "ongoing_backup", "ongoing_write_through", "ongoing_load_back"))


def reset(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """RESET (reset of both trees)."""
    del args, kwargs, result
    return (outcome(error), state, "E07" if state else None)


def cleared(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORAGE_CLEAR (clear_storage_backend): the engine's own answer."""
    del args, kwargs, state
    return (outcome(error, declined=result is False), str(result))
