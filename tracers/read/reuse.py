"""Readers of admission and of the prefill batch: what the device really ran with."""

import itertools
from typing import Any

from tracers import carry
from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, number, outcome, prefix, whole

LAST = "_hicachectl_admission"
BATCH_ID = "_hicachectl_batch"
RUNNING = "_hicachectl_running"
_batches = itertools.count(1)


def request(args: Args, kwargs: Kwargs) -> str | None:
    """Request id of `add_one_req(req, ...)`."""
    return getattr(argument(args, kwargs, 1, "req"), "rid", None)


def before_admission(args: Args, kwargs: Kwargs) -> Any:
    """The match of this attempt, before anything is loaded back."""
    req = argument(args, kwargs, 1, "req")
    return (prefix(req), whole(getattr(req, "host_hit_length", 0)), number(args[0], "rem_total_tokens"))


def admission(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """ADMISSION (SGLang `managers/schedule_policy.py`, add_one_req); a blocked request asks again in every iteration, so only changes count."""
    adder, req = args[0], argument(args, kwargs, 1, "req")
    device, host, budget = state
    admitted = bool(adder.can_run_list) and adder.can_run_list[-1] is req
    name = str(getattr(result, "name", result)).lower()
    answer = (admitted, name, device, host)
    if req.__dict__.get(LAST) == answer and error is None:
        return None
    req.__dict__[LAST] = answer
    extend = number(req, "extend_input_len")
    if extend is None:
        extend = len(getattr(req, "full_untruncated_fill_ids", ())) - prefix(req)
    needed = extend + (number(getattr(req, "sampling_params", None), "max_new_tokens") or 0)
    blocked = not admitted and name == "no_token"
    return (outcome(error, declined=not admitted), admitted, name, device, host, budget, needed, "L08" if blocked and host else None)


def prefill(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PREFILL, one a request (SGLang `managers/schedule_batch.py`, prepare_for_extend): the prefix that the batch carries."""
    del kwargs, state, result
    batch = args[0]
    if error is not None:
        return []
    number_ = next(_batches)
    batch.__dict__[BATCH_ID] = number_
    producer = whole(getattr(batch, "hicache_consumer_index", -1))
    rows = []
    for req, carried, extend in zip(batch.reqs, batch.prefix_lens, batch.extend_lens, strict=False):
        rows.append(
            (
                req.rid,
                (
                    "ok",
                    carried,
                    extend,
                    getattr(req, "extend_batch_idx", 1) == 1,
                    number_,
                    producer,
                    len(req.origin_input_ids),
                    number(req, "cached_tokens"),
                    number(req, "cached_tokens_device"),
                    number(req, "cached_tokens_host"),
                    number(req, "cached_tokens_storage"),
                    bool(getattr(req, "retracted_stain", False)),
                ),
            )
        )
    return rows


def before_forward(args: Args, kwargs: Kwargs) -> Any:
    """The id of a batch that has just been prepared; a decode step has none."""
    carry.pulse.steps += 1
    batch = argument(args, kwargs, 1, "batch")
    found = getattr(batch, "__dict__", {}).pop(BATCH_ID, None)
    return SKIP if found is None else found


def forward(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """FORWARD (scheduler.py, run_batch): the batch was handed to the device; the result comes back later."""
    del result
    scheduler, batch = args[0], argument(args, kwargs, 1, "batch")
    if error is None:
        scheduler.__dict__.setdefault(RUNNING, {})[getattr(batch, "forward_iter", None)] = state
    return (outcome(error), state, whole(getattr(batch, "hicache_consumer_index", -1)))


def before_executed(args: Args, kwargs: Kwargs) -> Any:
    """Runs for every batch result: one look whether a prefill batch is awaited."""
    running = args[0].__dict__.get(RUNNING)
    if not running:
        return SKIP
    found = running.pop(getattr(argument(args, kwargs, 1, "batch"), "forward_iter", None), None)
    return SKIP if found is None else found


def executed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """EXECUTED (scheduler.py, process_batch_result): the device has run the batch."""
    del args, kwargs, result
    return (outcome(error), state)
