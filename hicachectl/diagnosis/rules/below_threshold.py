"""Found, but fewer than the prefetch needs: R12; an abort before the transfer is R25, and another reason that the engine told its own."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.diagnosis.rules import revoked
from hicachectl.model.take import number
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """Hits against the threshold; where they suffice and nothing was transferred, the request was aborted or spans are missing."""
    journey = case.journey
    threshold = number(journey.lookup, v.THRESHOLD)
    args: dict[str, object] = {"hits": journey.hit, "threshold": threshold, "tokens": len(pages) * journey.page}
    abort = journey.attempt.first(v.PREFETCH_ABORT)
    if abort is not None:
        return of_request(journey, "R25", args=args | {"done": 0, "pages": len(pages)}, evidence=(abort, journey.lookup))
    if revoked.told(case) is not None:
        return revoked.judge(case, pages)
    below = journey.hit is not None and threshold is not None and journey.hit < threshold
    evidence = (journey.lookup, *(call.span for call in journey.lookup_calls))
    return of_request(journey, "R12", args=args, evidence=evidence, certain=below and case.world.certain(journey.attempt.engine))


RULE = LossRule(
    "below threshold",
    ("R12", "R14", "R18", "R25", "X07"),
    (v.PREFETCH_LOOKUP, v.PREFETCH_ABORT, v.PREFETCH_REVOKE, v.PREFETCH_SETTLE, v.TREE_OPEN),
    judge,
)
