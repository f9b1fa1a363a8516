"""Readers of the write path: insert, device to host, host to store."""

from typing import Any

from tracers import carry
from tracers.detail import Keys
from tracers.point import Args, Kwargs
from tracers.read.pools import short_pool
from tracers.read.take import argument, free_tokens, number, outcome


def request(args: Args, kwargs: Kwargs) -> str | None:
    """Request id of `cache_finished_req(req)` and `cache_unfinished_req(req)`."""
    return getattr(argument(args, kwargs, 1, "req"), "rid", None)


def inserted(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_INSERT (SGLang `mem_cache/radix_cache.py` and `unified_radix_cache.py`, cache_unfinished_req)."""
    del state, result
    req = argument(args, kwargs, 1, "req")
    return (outcome(error), number(req, "fill_len") or 0, bool(argument(args, kwargs, 2, "chunked", False)))


def finished(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """REQUEST_FINISHED: what the engine returns as cached tokens (SGLang `managers/schedule_batch.py`, Req.cached_tokens)."""
    del state, result
    req = argument(args, kwargs, 1, "req")
    return (
        outcome(error),
        len(req.origin_input_ids),
        len(req.output_ids),
        number(req, "cached_tokens"),
        number(req, "cached_tokens_device"),
        number(req, "cached_tokens_host"),
        number(req, "cached_tokens_storage"),
        bool(getattr(req, "retracted_stain", False)),
    )


def before_backup(args: Args, kwargs: Kwargs) -> Any:
    """Free host tokens and the parent's state before `write_backup(node)`; the node remembers whom it serves."""
    tree, node = args[0], argument(args, kwargs, 1, "node")
    parent = getattr(node, "parent", None)
    backed = parent is getattr(tree, "root_node", None) or bool(getattr(parent, "backuped", False))
    host = getattr(getattr(tree, "cache_controller", None), "mem_pool_host", None)
    carry.attach(node)
    return (backed, free_tokens(host))


def backed_up(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_BACKUP: 0 is a skip, whose reason the state before the call tells (hiradix_cache.py, write_backup)."""
    node = argument(args, kwargs, 1, "node")
    parent_backed, host_free = state
    on_eviction = bool(argument(args, kwargs, 2, "write_back", False))
    tokens = len(getattr(node, "key", ()) or ())
    done = result if isinstance(result, int) else 0
    reason = None
    if done == 0 and error is None:
        reason = "W05" if not parent_backed and not on_eviction else not_allocated()
    hashes = getattr(node, "hash_value", None)
    return (
        outcome(error, declined=done == 0),
        number(node, "id"),
        tokens,
        done,
        parent_backed,
        host_free,
        number(node, "hit_count"),
        on_eviction,
        carry.noted("write_short") if reason == "W08" else None,
        reason,
        Keys(list(hashes)) if hashes else None,
    )


def not_allocated() -> str:
    """Why a node got no host memory: no room beside KV (W08), none for KV (W06), or the eviction before it freed too little (W07)."""
    if carry.noted("write_short"):
        return "W08"
    return "W06" if carry.noted("write_none") else "W07"


def host_allocated(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Note for WRITE_BACKUP: the controller found no host memory (cache_controller.py, write), or none in a pool beside KV."""
    del state
    if error is None:
        carry.note("write_none", result is None)
        carry.note("write_short", short_pool(args, kwargs, "device_indices", free=_host_room) if result is None else None)


def _host_room(controller: Any, entry: Any) -> int | None:
    """Free tokens in the host pool of an ENTRY; without one, of the KV pool."""
    return free_tokens(getattr(controller, "mem_pool_host", None) if entry is None else getattr(entry, "host_pool", None))


def acknowledged_rid(args: Args, kwargs: Kwargs) -> str | None:
    """Request whose node a device-to-host acknowledgement is about."""
    node = _pending_node(args, kwargs)
    return carry.served(node) if node is not None else None


def _pending_node(args: Args, kwargs: Kwargs) -> Any:
    entry = args[0].ongoing_write_through.get(argument(args, kwargs, 1, "ack_id"))
    return entry[0] if entry else None


def before_acknowledged(args: Args, kwargs: Kwargs) -> Any:
    """Tokens of the node before the entry is taken away."""
    node = _pending_node(args, kwargs)
    return len(getattr(node, "key", ()) or ())


def acknowledged(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_HOST_DONE (hiradix_cache.py, _finish_write_through_ack)."""
    del result
    return (outcome(error), argument(args, kwargs, 1, "ack_id"), state)


def enqueued(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_ENQUEUE: pages of a node queued for the store; without page keys nothing will be written (W10)."""
    del state
    hashes = argument(args, kwargs, 3, "hash_value")
    controller = args[0]
    skip = bool(getattr(controller, "backup_skip", False))
    queue = getattr(controller, "backup_queue", None)
    carry.pass_on(enqueued=True)
    return (
        outcome(error),
        result if isinstance(result, int) else None,
        len(hashes or ()),
        skip,
        queue.qsize() if queue is not None else None,
        None if hashes else "W10",
        Keys(list(hashes)) if hashes else None,
    )


def remember_operation(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """A storage operation remembers whom it serves (cache_controller.py, StorageOperation.__init__)."""
    del kwargs, state, result, error
    carry.attach(args[0])


def operation_rid(args: Args, kwargs: Kwargs) -> str | None:
    """Request that an operation serves."""
    return carry.served(argument(args, kwargs, 1, "operation"))


def stored(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_STORE: the truth is completed_tokens against the pages of the operation (cache_controller.py, _page_backup)."""
    del state, result
    controller, operation = args[0], argument(args, kwargs, 1, "operation")
    pages, page = len(operation.hash_value or ()), number(controller, "page_size") or 1
    done = number(operation, "completed_tokens") or 0
    queue = getattr(controller, "backup_queue", None)
    # From 0.5.23 on a rank that does not write comes here as well, for the pools that it may have to write.
    skip = bool(getattr(controller, "backup_skip", False))
    short = error is None and done < pages * page and not skip
    reason = "W13" if short else ("W11" if skip else None)
    return (outcome(error, declined=short), number(operation, "id"), pages, done, queue.qsize() if queue is not None else None, reason, None)


def thread_ended(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """WRITE_THREAD, PREFETCH_THREAD: a thread function returned; with an exception it died (cache_controller.py)."""
    del kwargs, state, result
    queue = getattr(args[0], "backup_queue", None)
    return (outcome(error), queue.qsize() if queue is not None else None, None)
