"""Readers of the way from host to device."""

from typing import Any

from tracers import carry
from tracers.point import SKIP, Args, Kwargs
from tracers.read.pools import short_pool
from tracers.read.take import argument, free_tokens, number, outcome, whole

PENDING = "_hicachectl_loads"
"""Acknowledgements that a controller has not reported yet, kept on the controller itself."""


def asked_rid(args: Args, kwargs: Kwargs) -> str | None:
    """Request that `init_load_back(params)` is for."""
    return getattr(getattr(argument(args, kwargs, 1, "params"), "req", None), "rid", None)


def asked(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """LOAD_BACK_ASK (init_load_back): host tokens promised against tokens that came back as indices."""
    del state
    params = argument(args, kwargs, 1, "params")
    promised = number(params, "host_hit_length") or 0
    # From 0.5.23 on the tree answers with a number in place of the indices, and with nothing where a load is put off (buffer mode).
    came = result[0] if error is None and isinstance(result, tuple) and result else 0
    loaded = came if isinstance(came, int) else len(came)
    declined = loaded == 0 and promised > 0
    reason = carry.noted("reason") or ("L09" if result is None and error is None else None)
    return (outcome(error, declined=declined), promised, loaded, reason if declined else None)


def before_load(args: Args, kwargs: Kwargs) -> Any:
    """Tokens of the host-only nodes up to the first one on the device, and the room that there is."""
    tree, node = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    tokens, each = 0, node
    while each is not None and getattr(each, "evicted", False):
        tokens += len(each.key)
        each = each.parent
    controller = tree.cache_controller
    evictable = getattr(tree, "evictable_size", None)
    quota = whole(argument(args, kwargs, 2, "mem_quota"))
    return (tokens, free_tokens(controller.mem_pool_device_allocator), evictable() if callable(evictable) else None, number(node, "id"), quota)


def node_load(args: Args, kwargs: Kwargs) -> Any:
    """Tokens promised to the request and the room that there is, before `load_back(node_id, mem_quota, req)`."""
    tree, node = args[0], argument(args, kwargs, 1, "node_id")
    req = argument(args, kwargs, 3, "req")
    controller = tree.cache_controller
    evictable = getattr(tree, "evictable_size", None)
    allocator = getattr(controller, "mem_pool_device_allocator", None)
    quota = whole(argument(args, kwargs, 2, "mem_quota"))
    return (number(req, "host_hit_length") or 0, free_tokens(allocator), evictable() if callable(evictable) else None, node, quota)


def load(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """LOAD_BACK (load_back of both trees): why it declined, in the order of the tree's own tests."""
    del kwargs
    tokens, free, evictable, node, quota = state
    threshold = number(args[0], "load_back_threshold")
    moved = (tokens if result else 0) if isinstance(result, bool) else (len(result) if result is not None else 0)
    reason, pool = None, carry.noted("load_short")
    if moved == 0 and error is None:
        if carry.noted("load_none"):
            reason = "L06" if pool else "L05"
        elif threshold is not None and tokens < threshold:
            reason = "L02"
        elif quota is not None and tokens > quota:
            reason = "L03"
        else:
            # From 0.5.23 on a load may find that it may move nothing: then it neither evicts nor allocates.
            reason = "L07" if hasattr(args[0], "tree_core") and not carry.noted("evicted") and not _counts_apart(args[0]) else "L04"
        carry.pass_on(reason=reason)
    return (outcome(error, declined=moved == 0), node, tokens, moved, threshold, free, evictable, quota, pool if moved == 0 else None, reason)


def _counts_apart(tree: Any) -> bool:
    """Whether a pool of the model is asked for room before any other (unified_radix_cache.py, ensure_c128_capacity)."""
    return getattr(getattr(tree, "token_to_kv_pool_allocator", None), "c128_attn_allocator", None) is not None


def device_allocated(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Note for LOAD_BACK: the controller found no device memory (cache_controller.py, load), or none in a pool beside KV."""
    del state
    if error is None:
        carry.note("load_none", result is None)
        carry.note("load_short", short_pool(args, kwargs, "host_indices", free=_device_room) if result is None else None)


def _device_room(controller: Any, entry: Any) -> int | None:
    """Free tokens on the device of a pool, where its allocator tells; without an ENTRY, of the KV pool."""
    if entry is None:
        allocator = getattr(controller, "mem_pool_device_allocator", None)
        return free_tokens(getattr(allocator, "full_attn_allocator", allocator))
    return free_tokens(getattr(entry, "device_pool", None))


def before_start(args: Args, kwargs: Kwargs) -> Any:
    """Nodes and tokens that wait to be loaded; an empty queue is nothing to see."""
    del kwargs
    queue = args[0].load_queue
    if not queue:
        return SKIP
    return ([node for operation in queue for node in operation.node_ids], sum(len(operation.host_indices) for operation in queue))


def start(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """LOAD_BACK_START (cache_controller.py, start_loading): the index that ties the copies to their batch."""
    del kwargs
    controller, (nodes, tokens) = args[0], state
    if error is None and controller.ack_load_queue:
        controller.__dict__.setdefault(PENDING, []).append((controller.ack_load_queue[-1], nodes, tokens))
    return (outcome(error), result if isinstance(result, int) else None, nodes, tokens)


def before_done(args: Args, kwargs: Kwargs) -> Any:
    """Runs in every scheduler iteration: one look whether anything is pending."""
    del kwargs
    controller = getattr(args[0], "cache_controller", None)
    return controller if controller is not None and controller.__dict__.get(PENDING) else SKIP


def done(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """LOAD_BACK_DONE (loading_check): acknowledgements that the engine has taken from its queue, so their event has fired."""
    del args, kwargs, result
    controller = state
    waiting = {id(ack) for ack in controller.ack_load_queue}
    gone = [entry for entry in controller.__dict__[PENDING] if id(entry[0]) not in waiting]
    if not gone or error is not None:
        return None
    controller.__dict__[PENDING] = [entry for entry in controller.__dict__[PENDING] if id(entry[0]) in waiting]
    return ("ok", [node for _, nodes, _ in gone for node in nodes], sum(tokens for _, _, tokens in gone))
