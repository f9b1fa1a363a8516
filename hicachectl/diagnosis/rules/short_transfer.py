"""Fewer pages arrived than were agreed: a get failed (R15), the thread died (R16), the policy cut it off (R17, R18), a rank was behind (R20)."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.journey import Journey
from hicachectl.model.take import number, real, text
from hicachectl.mooncake.errors import store
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """The first of these that the spans show, in the order in which one can cause the next."""
    journey = case.journey
    page = journey.page
    done, asked = (journey.arrived or 0) // page, journey.agreed // page
    args: dict[str, object] = {"done": done, "pages": asked, "pages_lost": len(pages), "tokens": len(pages) * page}
    evidence = (journey.transfer, journey.finish, *(call.span for call in journey.transfer_calls))
    certain = case.world.certain(journey.attempt.engine)
    if journey.transfer is not None and journey.transfer.error:
        return of_request(journey, "R16", args=args | {"exception": text(journey.transfer, v.ERROR)}, evidence=evidence)
    failed = _failed_get(journey)
    if failed is not None:
        return of_request(journey, "R15", args=args | failed, evidence=evidence, certain=certain)
    own = number(journey.finish, v.DONE_TOKENS)
    if own is not None and own > (journey.arrived or 0):
        return of_request(journey, "R20", args=args | {"local": own, "agreed": journey.arrived, "rank": _slowest(journey)}, evidence=evidence)
    abort = journey.attempt.first(v.PREFETCH_ABORT)
    if abort is not None:
        return of_request(journey, "R25", args=args, evidence=(abort, *evidence))
    policy = text(journey.enqueue, v.STOP_POLICY) or journey.attempt.engine.text(v.STOP_POLICY)
    if policy == "timeout":
        return of_request(journey, "R18", args=args | {"deadline": deadline(journey), "seconds": real(journey.finish, v.SECONDS)}, evidence=evidence, certain=certain)
    return of_request(journey, "R17", args=args, evidence=evidence, certain=certain and policy == "best_effort")


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
            "endpoint": text(call.span, v.REPLICA),
            "exists": True,
        }
    return None


def _slowest(journey: Journey) -> int | None:
    done = {rank.engine.tp_rank: number(rank.first(v.PREFETCH_FINISH), v.DONE_TOKENS) for rank in journey.ranks}
    known = {rank: tokens for rank, tokens in done.items() if tokens is not None}
    return min(known, key=lambda rank: known[rank], default=None)


def deadline(journey: Journey) -> float | None:
    """Deadline of the timeout policy in seconds (SGLang 0.5.14 `hiradix_cache.py` and `unified_radix_cache.py`, _prefetch_timeout_check_linear_func)."""
    engine = journey.attempt.engine
    tree = engine.last(v.TREE_OPEN)
    base, per_page, most = real(tree, v.TIMEOUT_BASE), real(tree, v.TIMEOUT_PER_PAGE), real(tree, v.TIMEOUT_MAX)
    if base is None or per_page is None:
        return None
    seconds = base + per_page * (journey.agreed // journey.page)
    return round(min(most, seconds) if most is not None else seconds, 3)


RULE = LossRule(
    "transfer short",
    ("R15", "R16", "R17", "R18", "R20", "R25"),
    (v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.STORE_GET, v.PREFETCH_ABORT, v.PREFETCH_ENQUEUE, v.TREE_OPEN),
    judge,
)
