"""Pages that were there when the request came, and had gone when it was admitted."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.attempt import reason
from hicachectl.model.take import count
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """Matched on the device at the gate, not carried by the prefill: evicted without a host copy (E01) or let go by the host (E05)."""
    journey = case.journey
    end = journey.attempt.first_prefill
    evictions = [
        span
        for span in journey.attempt.engine.all(v.EVICT_DEVICE)
        if end is not None and journey.attempt.start_ns <= span.start_ns <= end.end_ns
    ]
    lost = sum(count(span, v.EVICT_LOST) for span in evictions)
    tokens = len(pages) * journey.page
    if lost:
        code = "E03" if any(reason(span) == "E03" for span in evictions) else "E01"
        return of_request(journey, code, args={"tokens": lost}, evidence=(*evictions, end), certain=case.world.certain(journey.attempt.engine))
    return of_request(journey, "E05", args={"tokens": tokens}, evidence=(*evictions, end), certain=False)


def unpublished(case: Case, pages: tuple[int, ...]) -> Finding:
    """Arrived, and neither published nor loaded: thrown away with a pool (R22), dropped (R24), aborted (R25), or the spans are missing."""
    journey = case.journey
    abort = journey.attempt.first(v.PREFETCH_ABORT)
    args: dict[str, object] = {"done": (journey.arrived or 0) // journey.page, "pages": journey.agreed // journey.page, "tokens": len(pages) * journey.page}
    told = reason(journey.publish)
    if told is not None:
        args |= {"pool": "a side pool", "reason": next(iter(journey.attempt.engine_reasons), "not told")}
        return of_request(journey, told, args=args, evidence=(journey.publish, journey.finish), certain=case.world.certain(journey.attempt.engine))
    return of_request(journey, "R25" if abort is not None else "R24", args=args, evidence=(abort, journey.transfer, journey.finish), certain=abort is not None)


RULE = LossRule("left the device", ("E01", "E03", "E05"), (v.EVICT_DEVICE, v.PREFILL), judge)
UNPUBLISHED_RULE = LossRule(
    "not published",
    ("R22", "R24", "R25"),
    (v.PREFETCH_ABORT, v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.PREFETCH_PUBLISH, v.PREFETCH_SETTLE),
    unpublished,
)
