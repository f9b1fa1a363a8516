"""Readers of the read path from the store: gate, lookup, transfer, publication."""

import sys
import time
from typing import Any

from tracers import carry
from tracers import vocabulary as v
from tracers.detail import Keys, PromptKeys
from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, bigram, free_tokens, number, outcome, text

HASHES = "sglang.srt.mem_cache.utils"
ENVIRONMENT = "sglang.srt.environ"
PROBE_RID = "__storage_hit_query__"
"""Operation that SGLang makes for a question outside any request (hiradix_cache.py, query_storage_hit_length)."""


def request(args: Args, kwargs: Kwargs) -> str | None:
    """Request id of a call that takes the request."""
    return getattr(argument(args, kwargs, 1, "req"), "rid", None)


def named(args: Args, kwargs: Kwargs) -> str | None:
    """Request id of a call that takes the id."""
    return text(argument(args, kwargs, 1, "req_id", kwargs.get("rid")))


def operation_rid(args: Args, kwargs: Kwargs) -> str | None:
    """Request id that a prefetch operation carries."""
    return text(getattr(argument(args, kwargs, 1, "operation"), "request_id", None))


def queued(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """REQUEST_QUEUED (SGLang `managers/scheduler.py`, _add_request_to_queue): keys of the prompt are worked out by the writer."""
    del state, result
    scheduler, req = args[0], argument(args, kwargs, 1, "req")
    tree = getattr(scheduler, "tree_cache", None)
    page = number(tree, "page_size") or number(scheduler, "page_size") or 1
    retracted = bool(getattr(req, "retracted_stain", False))
    keys = None if retracted else PromptKeys(req.origin_input_ids, page, bigram=bigram(tree), namespace=_namespace(req))
    mode = getattr(scheduler, "disaggregation_mode", None)
    return (
        outcome(error),
        len(req.origin_input_ids),
        len(req.output_ids),
        retracted,
        getattr(req, "extra_key", None) is not None or getattr(req, "cache_salt", None) is not None,
        namespace(req),
        page,
        "R03" if getattr(mode, "value", None) == "decode" else None,
        number(getattr(req, "cache_request_handle", None), "attempt_id"),
        keys,
    )


_numbers: dict[tuple[str | None, str | None], int] = {(None, None): 0}
"""Extra key and salt -> their number in this process."""
MOST_NAMESPACES = 4096


def namespace(req: Any) -> int | None:
    """Number of the request's extra key and salt, as they came; None where there are more than are kept."""
    own = (text(getattr(req, "extra_key", None)), text(getattr(req, "cache_salt", None)))
    if own not in _numbers and len(_numbers) >= MOST_NAMESPACES:
        return None
    return _numbers.setdefault(own, len(_numbers))


def match_off(req: Any) -> str | None:
    """What keeps the tree from matching this request (schedule_batch.py, init_next_round_input)."""
    if getattr(req, "positional_embed_overrides", None) is not None:
        return "positional_embed_overrides"
    variable = getattr(getattr(sys.modules.get(ENVIRONMENT), "envs", None), "SGLANG_RADIX_FORCE_MISS", None)
    return "SGLANG_RADIX_FORCE_MISS" if variable is not None and variable.get() else None


def _namespace(req: Any) -> tuple[str | None, str | None]:
    """What the engine hashes before a request's first page; before 0.5.23 it hashed none."""
    if not hasattr(sys.modules.get(HASHES), "storage_namespace_seed"):
        return (None, None)
    return (getattr(req, "extra_key", None), getattr(req, "cache_salt", None))


def gated(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_GATE (scheduler.py, _prefetch_kvcache): the match, and why the store was or was not asked."""
    del state, result
    scheduler, req = args[0], argument(args, kwargs, 1, "req")
    prompt = len(req.origin_input_ids) + len(req.output_ids)
    if not getattr(scheduler, "enable_hicache_storage", False):
        return (outcome(error, declined=True), prompt, None, None, None, None, "R01", 0, bool(getattr(req, "retracted_stain", False)), None, None)
    device, host = len(req.prefix_indices), int(req.host_hit_length)
    node, root = req.last_host_node, scheduler.tree_cache.root_node
    end = reuse_end(req, prompt)
    page = number(scheduler.tree_cache, "page_size") or 1
    asked = max(0, end - device - host) // page * page
    barred = not (node.backuped or node is root)
    reason = "R02" if barred else carry.noted("reason")
    accepted = carry.noted("accepted", 0)
    retracted = bool(getattr(req, "retracted_stain", False))
    return (outcome(error, declined=not accepted), prompt, device, host, end, asked, reason, accepted, retracted, None, match_off(req))


def reuse_end(req: Any, prompt: int) -> int:
    """The last token is never reused, nor what comes after the first token whose logprob is asked (schedule_batch.py, _compute_max_prefix_len)."""
    end = prompt - 1
    if getattr(req, "return_logprob", False) and req.logprob_start_len >= 0:
        end = min(end, req.logprob_start_len)
    return max(end, 0)


def before_enqueue(args: Args, kwargs: Kwargs) -> Any:
    """What the tree's gate will look at (hiradix_cache.py, prefetch_from_storage)."""
    tree, controller = args[0], args[0].cache_controller
    return (
        named(args, kwargs) in tree.ongoing_prefetch,
        number(controller, "prefetch_tokens_occupied") or 0,
        number(controller, "prefetch_capacity_limit"),
        free_tokens(getattr(controller, "mem_pool_host", None)),
    )


def enqueue(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_ENQUEUE: accepted if the tree holds the request afterwards; else the first condition of the gate that fails."""
    del result
    tree, rid = args[0], named(args, kwargs)
    was_there, occupied, limit, host_free = state
    asked = len(argument(args, kwargs, 3, "new_input_tokens") or ())
    page = number(tree, "page_size") or 1
    asked = max(0, asked - bigram(tree)) // page * page
    threshold = number(tree, "prefetch_threshold")
    entry = tree.ongoing_prefetch.get(rid)
    accepted = len(entry[1]) if entry is not None else 0
    reason = None
    if entry is None:
        if not tree.enable_storage:
            reason = "R01"
        elif threshold is not None and asked < threshold:
            reason = "R04"
        elif limit is not None and occupied >= limit:
            reason = "R05"
        else:
            reason = "R06"
    elif was_there:
        reason = "R28"
    if reason is not None:
        carry.note("reason", reason)
    carry.add("accepted", accepted)
    carry.pass_on(reason=reason, accepted=accepted)
    last = text(argument(args, kwargs, 4, "last_hash"))
    return (
        outcome(error, declined=entry is None),
        asked,
        accepted,
        threshold,
        occupied,
        limit,
        host_free,
        text(getattr(tree, "prefetch_stop_policy", None)),
        reason,
        None,
        Keys([last], v.ANCHOR) if last else None,
    )


def before_lookup(args: Args, kwargs: Kwargs) -> Any:
    """Questions that serve no request are not recorded."""
    return SKIP if operation_rid(args, kwargs) == PROBE_RID else None


def looked_up(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_LOOKUP (cache_controller.py, _storage_hit_query): contiguous hit of this rank against the threshold."""
    del state
    controller, operation = args[0], argument(args, kwargs, 1, "operation")
    hit = int(result[1]) if error is None and isinstance(result, tuple) else None
    threshold = number(controller, "prefetch_threshold")
    below = hit is not None and threshold is not None and hit < threshold
    reason = "R12" if below else ("R10" if error else None)
    # A key of token pairs counts pairs, and the key itself knows how many.
    asked = len(operation.token_ids)
    attempt = number(getattr(operation, "handle", None), "attempt_id")
    return (outcome(error, declined=below), number(operation, "id"), asked, hit, threshold, reason, attempt, None)


def before_transfer(args: Args, kwargs: Kwargs) -> Any:
    """Tokens read before this call."""
    return number(argument(args, kwargs, 1, "operation"), "completed_tokens") or 0


def transferred(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_TRANSFER (cache_controller.py, _page_transfer): tokens read against tokens agreed."""
    del result
    controller, operation = args[0], argument(args, kwargs, 1, "operation")
    agreed = len(operation.hash_value) * (number(controller, "page_size") or 1)
    done = (number(operation, "completed_tokens") or 0) - state
    short = error is None and done < agreed
    terminated = bool(operation.is_terminated())
    return (outcome(error, declined=short), number(operation, "id"), agreed, done, terminated, None, None)


def before_finish(args: Args, kwargs: Kwargs) -> Any:
    """Whether the operation had ended by itself, and for how long it has run (PrefetchOperation.start_time is monotonic)."""
    operation = argument(args, kwargs, 1, "operation")
    begun = getattr(operation, "start_time", None)
    return (bool(operation.is_terminated()), time.monotonic() - begun if isinstance(begun, float) else None)


def finish(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_FINISH (cache_controller.py, terminate_prefetch): what had arrived when the scheduler took it."""
    controller, operation = args[0], argument(args, kwargs, 1, "operation")
    ended, seconds = state
    done = int(result[0]) if error is None and isinstance(result, tuple) else None
    agreed = len(operation.hash_value) * (number(controller, "page_size") or 1)
    carry.here.last_rid = operation_rid(args, kwargs)
    return (outcome(error, declined=done is not None and done < agreed), number(operation, "id"), agreed, done, ended, seconds, None, None)


def finished_rid(args: Args, kwargs: Kwargs) -> str | None:
    """Request whose prefetch was finished just before on this thread."""
    del args, kwargs
    return carry.here.last_rid


def before_publish(args: Args, kwargs: Kwargs) -> Any:
    """Tokens handed over; nothing handed over is nothing to see."""
    return len(argument(args, kwargs, 2, "key")) or SKIP


def published(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_PUBLISH (_insert_helper_host of both trees): tokens inserted, and tokens that were in the tree already."""
    del args, kwargs
    matched = result if isinstance(result, int) else number(result, "prefix_len")
    return (outcome(error), state, matched, None)


def credited(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_CREDIT (pop_prefetch_loaded_tokens): only when there is a credit."""
    del args, kwargs, state
    return (result,) if isinstance(result, int) and result > 0 and error is None else None


def before_abort(args: Args, kwargs: Kwargs) -> Any:
    """Only a request with a prefetch is worth a span."""
    return None if named(args, kwargs) in args[0].ongoing_prefetch else SKIP


def aborted(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFETCH_ABORT (release_aborted_request)."""
    del args, kwargs, state, result
    return (outcome(error), "R25")
