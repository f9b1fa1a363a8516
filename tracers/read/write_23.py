"""Readers of the write path where SGLang 0.5.23 and later differ: nodes are numbers, copies wait to be submitted together."""

from typing import Any

from tracers import carry
from tracers.detail import Keys
from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, free_tokens, outcome
from tracers.read.write import not_allocated

SERVED = "_hicachectl_served"
"""Nodes whose copy is under way -> (request, span, tokens), kept on the tree itself."""
MOST = 8192


def before_inserted(args: Args, kwargs: Kwargs) -> Any:
    """A checkpoint of a request that goes on."""
    return SKIP if argument(args, kwargs, 1, "req").finished() else None


def inserted(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_INSERT (unified_radix_cache.py, checkpoint_into_tree)."""
    del state, result
    req, up_to = argument(args, kwargs, 1, "req"), argument(args, kwargs, 2, "up_to", 0)
    return (outcome(error), up_to, up_to < len(req.full_untruncated_fill_ids))


def before_finished(args: Args, kwargs: Kwargs) -> Any:
    """The last checkpoint of a request."""
    return None if argument(args, kwargs, 1, "req").finished() else SKIP


def before_released(args: Args, kwargs: Kwargs) -> Any:
    """A finished request that was not checkpointed: it left no tokens in the tree (mem_cache/common.py, release_kv_cache)."""
    return SKIP if kwargs.get("checkpointed") or not argument(args, kwargs, 1, "req").finished() else None


def before_backup(args: Args, kwargs: Kwargs) -> Any:
    """Free host tokens before `_execute_kv_backup(node_id, device_value, ...)`; the tree remembers whom the node serves."""
    tree, node, tokens = args[0], argument(args, kwargs, 1, "node_id"), len(argument(args, kwargs, 2, "device_value"))
    served = tree.__dict__.setdefault(SERVED, {})
    if len(served) >= MOST:
        served.clear()
    frame = carry.here.frame
    served[node] = (frame.rid, frame.span, tokens) if frame is not None else (None, 0, tokens)
    return (tokens, free_tokens(getattr(getattr(tree, "cache_controller", None), "mem_pool_host", None)))


def backed_up(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_BACKUP: without host indices the node stays unwritten; the parents of a chain come first, so they are backed."""
    node, (tokens, host_free) = argument(args, kwargs, 1, "node_id"), state
    done = tokens if result is not None else 0
    if result is None:
        args[0].__dict__.get(SERVED, {}).pop(node, None)
    reason = None
    if result is None and error is None:
        reason = not_allocated()
    find = getattr(getattr(args[0], "tree_core", None), "get_hash_values", None)
    hashes = find(node) if find is not None and error is None else None
    on_eviction, pool = carry.within("evict.device"), carry.noted("write_short") if reason == "W08" else None
    keys = Keys(list(hashes)) if hashes else None
    return (outcome(error, declined=result is None), node, tokens, done, None, host_free, None, on_eviction, pool, reason, keys)


def acknowledged_rid(args: Args, kwargs: Kwargs) -> str | None:
    """Request whose node a device-to-host acknowledgement is about."""
    entry = args[0].__dict__.get(SERVED, {}).get(argument(args, kwargs, 1, "ack_id"))
    return entry[0] if entry else None


def before_acknowledged(args: Args, kwargs: Kwargs) -> Any:
    """Tokens of the node, which is forgotten from here on."""
    entry = args[0].__dict__.get(SERVED, {}).get(argument(args, kwargs, 1, "ack_id"))
    return entry[2] if entry else None


def acknowledged(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_HOST_DONE (unified_radix_cache.py, _finish_write_through_ack)."""
    del result
    ack = argument(args, kwargs, 1, "ack_id")
    args[0].__dict__.get(SERVED, {}).pop(ack, None)
    return (outcome(error), ack, state)


def unqueued(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_ENQUEUE of write_backup_storage(node): only where the tree queued nothing for the store (W09)."""
    del kwargs, state, result
    if carry.noted("enqueued") or error is not None or not getattr(args[0], "enable_storage", False):
        return None
    return (outcome(None, declined=True), None, 0, None, None, "W09", None)
