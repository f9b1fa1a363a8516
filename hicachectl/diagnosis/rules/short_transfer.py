"""Fewer pages arrived than were agreed: a get failed (R15), the thread died (R16), the policy cut it off (R17, R18), a rank was behind (R20)."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.diagnosis.rules.threads import said
from hicachectl.model.journey import Journey
from hicachectl.model.ranks import read_by_rank
from hicachectl.model.take import count, number, real, text
from hicachectl.mooncake.errors import store
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """The first of these that the spans show, in the order in which one can cause the next."""
    journey = case.journey
    page = journey.page
    done, asked = (journey.arrived or 0) // page, journey.handed // page
    args: dict[str, object] = {"done": done, "pages": asked, "pages_lost": len(pages), "tokens": len(pages) * page}
    evidence = (journey.transfer, journey.finish, journey.revoke, *(call.span for call in journey.transfer_calls))
    certain = case.world.certain(journey.attempt.engine)
    death = next(filter(None, map(_death, journey.on_ranks)), None)
    if death is not None:
        return of_request(journey, "R16", args=args | said(death), evidence=(death, journey.lookup, *evidence))
    for each in journey.on_ranks:
        failed = _failed_get(each)
        if failed is not None:
            shown = (each.transfer, each.finish, *(call.span for call in each.transfer_calls))
            told = failed | {"rank": each.attempt.engine.rank, "endpoint": case.world.owner(failed["key"])}
            return of_request(journey, "R15", args=args | told, evidence=shown, certain=certain)
    read = {rank: tokens for rank, tokens in read_by_rank(journey).items() if tokens is not None}
    own = read.get(journey.attempt.engine.rank, 0)
    if own > (journey.arrived or 0):
        slowest = min(read, key=lambda rank: read[rank])
        return of_request(journey, "R20", args=args | {"local": own, "agreed": journey.arrived, "rank": slowest}, evidence=evidence, certain=len(read) > 1)
    abort = journey.attempt.first(v.PREFETCH_ABORT)
    if abort is not None:
        return of_request(journey, "R25", args=args, evidence=(abort, *evidence))
    policy = text(journey.enqueue, v.STOP_POLICY) or journey.attempt.engine.text(v.STOP_POLICY)
    if policy == "timeout":
        waited = real(journey.finish, v.WAITED)
        seconds = waited if waited is not None else real(journey.finish, v.SECONDS)
        return of_request(journey, "R18", args=args | {"deadline": deadline(journey), "seconds": seconds}, evidence=evidence, certain=certain)
    return of_request(journey, "R17", args=args, evidence=evidence, certain=certain and (policy == "best_effort" or journey.cut_off))


def _death(journey: Journey) -> Span | None:
    """The exception that ended this transfer, or that had ended the I/O thread before it could begin."""
    if journey.transfer is not None:
        return journey.transfer if journey.transfer.error else None
    return journey.attempt.engine.dead(v.PREFETCH_THREAD, "aux", journey.lookup.end_ns) if journey.lookup is not None else None


def _failed_get(journey: Journey) -> dict[str, object] | None:
    for call in journey.transfer_calls:
        code = number(call.span, v.FIRST_BAD_CODE)
        if code is None:
            continue
        bad = next((page for page in call.pages if page.bad), None)
        row = store(code) if code < 0 else None
        return {
            "code": code,
            "name": row.name if row else ("SHORT_READ" if code >= 0 else "UNKNOWN"),
            "page": journey.attempt.page_keys.index(bad.page_key) if bad is not None and bad.page_key in journey.attempt.page_keys else None,
            "key": call.first_bad_key,
            "exists": True,
        }
    # From 0.5.23 on the engine catches what a read raises, and counts it as no page.
    caught = text(journey.transfer, v.EXCEPTION)
    return {"code": None, "name": caught, "page": None, "key": None, "exists": None} if caught is not None else None


def deadline(journey: Journey) -> float | None:
    """Deadline of the timeout policy in seconds, counted from when TIMEOUT_CLOCK says.

    Sources: SGLang 0.5.14 `hiradix_cache.py` and `unified_radix_cache.py`, _prefetch_timeout_check_linear_func (pages found);
    0.5.23 `unified_radix_cache.py`, _start_storage_prefetch_wait (pages asked for).
    """
    tree = journey.attempt.engine.last(v.TREE_OPEN)
    base, per_page, most = real(tree, v.TIMEOUT_BASE), real(tree, v.TIMEOUT_PER_PAGE), real(tree, v.TIMEOUT_MAX)
    if base is None or per_page is None:
        return None
    # What was cut off before its lookup had answered was timed as a prefetch of no page.
    agreed = count(journey.finish, v.AGREED_TOKENS) if journey.finish is not None else journey.agreed
    tokens = count(journey.enqueue, v.ACCEPTED_TOKENS) if text(tree, v.TIMEOUT_COUNTS) == "asked" else agreed
    seconds = base + per_page * (tokens // journey.page)
    return round(min(most, seconds) if most is not None else seconds, 3)


RULE = LossRule(
    "transfer short",
    ("R15", "R16", "R17", "R18", "R20", "R25"),
    (v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.PREFETCH_REVOKE, v.STORE_GET, v.STORE_REPLICA, v.PREFETCH_ABORT, v.PREFETCH_ENQUEUE, v.TREE_OPEN, v.PREFETCH_THREAD, v.RESET),
    judge,
)
