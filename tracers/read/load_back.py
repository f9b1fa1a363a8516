"""Readers of the way from host to device."""

from typing import Any

from tracers import carry
from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, free_tokens, number, outcome

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
    # From 0.5.23 on the tree answers with a number in place of the indices.
    came = result[0] if error is None and isinstance(result, tuple) and result else 0
    loaded = came if isinstance(came, int) else len(came)
    declined = loaded == 0 and promised > 0
    return (outcome(error, declined=declined), promised, loaded, carry.noted("reason") if declined else None)


def before_load(args: Args, kwargs: Kwargs) -> Any:
    """Tokens of the host-only nodes up to the first one on the device, and the room that there is."""
    tree, node = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    tokens, each = 0, node
    while each is not None and getattr(each, "evicted", False):
        tokens += len(each.key)
        each = each.parent
    controller = tree.cache_controller
    evictable = getattr(tree, "evictable_size", None)
    return (tokens, free_tokens(controller.mem_pool_device_allocator), evictable() if callable(evictable) else None, number(node, "id"))


def node_load(args: Args, kwargs: Kwargs) -> Any:
    """Tokens promised to the request and the room that there is, before `load_back(node_id, mem_quota, req)`."""
    tree, node = args[0], argument(args, kwargs, 1, "node_id")
    req = argument(args, kwargs, 3, "req")
    controller = tree.cache_controller
    evictable = getattr(tree, "evictable_size", None)
    allocator = getattr(controller, "mem_pool_device_allocator", None)
    return (number(req, "host_hit_length") or 0, free_tokens(allocator), evictable() if callable(evictable) else None, node)


def load(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """LOAD_BACK (load_back of both trees): why it declined, in the order of the tree's own tests."""
    del kwargs
    tokens, free, evictable, node = state
    threshold = number(args[0], "load_back_threshold")
    moved = (tokens if result else 0) if isinstance(result, bool) else (len(result) if result is not None else 0)
    reason = None
    if moved == 0 and error is None:
        if carry.noted("load_none"):
            reason = "L05"
        elif threshold is not None and tokens < threshold:
            reason = "L02"
        else:
            reason = "L04"
        carry.pass_on(reason=reason)
    return (outcome(error, declined=moved == 0), node, tokens, moved, threshold, free, evictable, reason)


def device_allocated(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Note for LOAD_BACK: the controller found no device memory (cache_controller.py, load)."""
    del args, kwargs, state
    if error is None:
        carry.note("load_none", result is None)


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
