"""Readers of the read path where SGLang 0.5.23 and later differ: handles in place of ids, staging after the lookup, reasons told."""

import time
from typing import Any

from tracers import carry
from tracers import vocabulary as v
from tracers.detail import Keys
from tracers.point import SKIP, Args, Kwargs
from tracers.read.prefetch import PROBE_RID, match_off, reuse_end
from tracers.read.take import argument, bigram, free_tokens, number, outcome, text

REASONS = {
    "deadline": "R18",
    "storage_transfer": "R15",
    "below_threshold": "R12",
    "host_capacity": "R14",
    "dropped": "R24",
    "anchor_lost": "X07",
    "unservable_prefix": "X07",
    "device_covered": "X07",
    "device_capacity": "X08",
    "shrunk": "X08",
}
"""Why the engine says that tokens of a prefetch were of no use -> code (unified_radix_cache.py and buffer_mode/pipeline.py, _finish_storage_prefetch)."""


def handled(args: Args, kwargs: Kwargs) -> str | None:
    """Request id of a call that takes a handle (base_prefix_cache.py, CacheRequestHandle)."""
    return text(getattr(argument(args, kwargs, 1, "request"), "rid", None))


def gated(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_GATE (scheduler.py, _prefetch_kvcache): called again for a retry, so the number of retries is told."""
    del state, result
    scheduler, req = args[0], argument(args, kwargs, 1, "req")
    prompt = len(req.origin_input_ids) + len(req.output_ids)
    retracted, retry = bool(getattr(req, "retracted_stain", False)), number(req, "storage_prefetch_retry_attempts")
    if not scheduler.enable_hicache_storage:
        return (outcome(error, declined=True), prompt, None, None, None, None, "R01", 0, retracted, retry, None)
    device, host, tree = int(req.prefix_len), int(req.host_hit_length), scheduler.tree_cache
    end = reuse_end(req, prompt)
    page = number(tree, "page_size") or 1
    asked = max(0, end - device - host) // page * page
    reason, accepted = carry.noted("reason"), carry.noted("accepted", 0)
    if not carry.noted("asked", False) and error is None:
        reason = "R02"
    return (outcome(error, declined=not accepted), prompt, device, host, end, asked, reason, accepted, retracted, retry, match_off(req))


def before_enqueue(args: Args, kwargs: Kwargs) -> Any:
    """What the tree's gate will look at (unified_radix_cache.py, prefetch_from_storage)."""
    tree, controller, handle = args[0], args[0].cache_controller, argument(args, kwargs, 1, "request")
    wait = tree._storage_prefetch_wait.get(handle)  # noqa: SLF001 - the engine's own record of an expired wait
    return (
        tree.ongoing_prefetch.get(handle),
        number(controller, "prefetch_tokens_occupied") or 0,
        number(controller, "prefetch_capacity_limit"),
        free_tokens(getattr(controller, "mem_pool_host", None)),
        bool(getattr(wait, "expired", False)),
    )


def enqueue(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_ENQUEUE: accepted if the tree holds a new entry for the handle; else the first condition of the gate that fails."""
    tree, handle = args[0], argument(args, kwargs, 1, "request")
    was, occupied, limit, host_free, expired = state
    asked = len(argument(args, kwargs, 3, "new_input_tokens") or ())
    page = number(tree, "page_size") or 1
    asked = max(0, asked - bigram(tree)) // page * page
    threshold = number(tree, "prefetch_threshold")
    entry = tree.ongoing_prefetch.get(handle)
    fresh = (entry is not None and entry is not was) or result is True
    accepted = (len(entry.prefetch_key) if entry is not None else asked) if fresh else 0
    reason = None
    if not fresh and error is None:
        limited = limit is not None and occupied >= limit and getattr(tree, "host_memory_mode", "cache") != "buffer_only"
        tests = (("R01", not tree.enable_storage), ("R18", expired), ("R09", was is not None), ("R04", threshold is not None and asked < threshold), ("R05", limited))
        reason = next((code for code, failed in tests if failed), "R09")
    carry.pass_on(asked=True, reason=reason, accepted=accepted)
    last = text(argument(args, kwargs, 4, "last_hash"))
    return (
        outcome(error, declined=not fresh),
        asked,
        accepted,
        threshold,
        occupied,
        limit,
        host_free,
        text(getattr(tree, "prefetch_stop_policy", None)),
        reason,
        number(handle, "attempt_id"),
        Keys([last], v.ANCHOR) if last else None,
    )


def before_agreement(args: Args, kwargs: Kwargs) -> Any:
    """Questions that serve no request are not recorded."""
    return SKIP if getattr(argument(args, kwargs, 1, "operation"), "request_id", None) == PROBE_RID else None


def agreed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_AGREE (_sync_prefetch_hit_query of both controllers): this rank's hit and the least of all ranks."""
    del state
    own = argument(args, kwargs, 2, "storage_hit_count")
    least = result if isinstance(result, int) else None
    operation = argument(args, kwargs, 1, "operation")
    fewer = least is not None and isinstance(own, int) and least < own
    return (outcome(error, declined=fewer), number(operation, "id"), own, least, "R11" if fewer else None)


def pages_read(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Note for PREFETCH_TRANSFER: pages that this rank read (cache_controller.py, _page_transfer); other ranks may have fewer."""
    del kwargs, state, error
    if isinstance(result, int):
        carry.note("done", result * (number(args[0], "page_size") or 1))


def batch_read(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Note for PREFETCH_TRANSFER: an exception that the engine logs and counts as no page (cache_controller.py, _page_transfer_kv_batch)."""
    del args, kwargs, state, result
    if error is not None:
        carry.note("exception", type(error).__name__)


def nothing(args: Args, kwargs: Kwargs) -> Any:
    """Nothing is to be read before the call."""
    del args, kwargs


def transferred(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_TRANSFER (hybrid_cache_controller.py, _page_transfer): tokens that this rank read against tokens agreed and staged."""
    del state, result
    controller, operation = args[0], argument(args, kwargs, 1, "operation")
    staged = len(operation.hash_value) * (number(controller, "page_size") or 1)
    done = carry.noted("done", 0)
    exception = carry.noted("exception")
    terminated = bool(operation.is_terminated())
    return (outcome(error, declined=done < staged), number(operation, "id"), staged, done, terminated, exception, None)


def before_result(args: Args, kwargs: Kwargs) -> Any:
    """What had arrived, before the tree takes it: (tokens staged, tokens read on every rank, ended by the policy, seconds)."""
    operation = argument(args, kwargs, 1, "operation")
    page = number(args[0], "page_size") or 1
    return (
        len(operation.hash_value or ()) * page,
        number(operation, "completed_tokens") or 0,
        bool(getattr(operation, "deadline_expired", False)),
        time.monotonic() - operation.start_time,
    )


def finished(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_FINISH (unified_radix_cache.py, _handle_prefetch_result): what had arrived when the scheduler took it."""
    del result
    operation = argument(args, kwargs, 1, "operation")
    staged, done, late, seconds = state
    waited = _waited(args[0], operation)
    reason = "R18" if late and done < staged else None
    return (outcome(error, declined=done < staged), number(operation, "id"), staged, done, bool(operation.is_terminated()), seconds, waited, reason)


def _waited(tree: Any, operation: Any) -> float | None:
    """Seconds since admission was first blocked by this prefetch, where the policy counts them."""
    wait = tree._storage_prefetch_wait.get(operation.handle)  # noqa: SLF001
    timer = getattr(wait, "timer", None)
    return float(timer.elapsed()) if timer is not None and timer.running else None


def published(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_PUBLISH: what the tree took, and what it had already; a discarded or dropped result is none."""
    del args, kwargs, result
    _, done, _, _ = state
    why = carry.noted("useless")
    if not done:
        return None
    taken = 0 if why is not None else done
    return (outcome(error, declined=why is not None), taken, None if why is not None else carry.noted("matched", 0), why)


def before_settled(args: Args, kwargs: Kwargs) -> Any:
    """Without a reason nothing was lost, and nothing is to be recorded."""
    reason = argument(args, kwargs, 3, "reason")
    if reason is None:
        carry.note("matched", argument(args, kwargs, 2, "num_tokens") or 0)
        return SKIP
    return reason


def settled(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_SETTLE of `_resolve_storage_prefetch_tokens(request, num_tokens, reason)`: tokens that are of no use, and why."""
    del result
    tokens = argument(args, kwargs, 2, "num_tokens")
    if not tokens:
        return None
    return (outcome(error), tokens, state, REASONS.get(state))


def before_ended(args: Args, kwargs: Kwargs) -> Any:
    """A prefetch that ends as it should has no reason."""
    reason = argument(args, kwargs, 3, "reason")
    return SKIP if reason is None else reason


def ended(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_SETTLE of `_finish_storage_prefetch(request, fulfilled_tokens, reason)`: the rest of a prefetch is of no use, and why."""
    del result, args, kwargs
    carry.note("useless", "R24" if state == "dropped" else "R22")
    return (outcome(error), None, state, REASONS.get(state))


def before_revoked(args: Args, kwargs: Kwargs) -> Any:
    """The operation that is given up before a page was read; a request without one is nothing to see."""
    entry = args[0].ongoing_prefetch.get(argument(args, kwargs, 1, "request"))
    if entry is None:
        return SKIP
    operation = entry.operation
    waited = _waited(args[0], operation)
    # The flag itself: is_terminated() would take the operation's lock.
    cut = bool(getattr(operation, "_terminated_flag", False))
    return (number(operation, "id"), number(operation, "storage_hit_count") or 0, bool(operation.deadline_expired), cut, waited)


def revoked(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_REVOKE (unified_radix_cache.py, revoke_pending_prefetch): given up after or before the lookup, with nothing read."""
    del kwargs, result
    operation, hit, late, cut, waited = state
    threshold = number(args[0], "prefetch_threshold")
    # What the policy ends at the first look (check_prefetch_progress) has no answer of its lookup yet, nor host memory.
    reason = "R18" if late else ("R17" if cut else ("R12" if threshold is not None and hit < threshold else "R14"))
    return (outcome(error), operation, hit, threshold, waited, reason)


def credited(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_CREDIT (pop_prefetch_loaded_span): only when there is a credit."""
    del args, kwargs, state
    tokens = result[0] if isinstance(result, tuple) and result else 0
    return (tokens,) if tokens > 0 and error is None else None


def before_abort(args: Args, kwargs: Kwargs) -> Any:
    """Only a request with a prefetch is worth a span."""
    return None if argument(args, kwargs, 1, "request") in args[0].ongoing_prefetch else SKIP
