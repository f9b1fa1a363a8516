"""In host memory, not on the device: L02 to L09 as the tree or the adder decided; what arrived and was not matched, and why (G06, R27, R08, E05)."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.diagnosis.rules import match_off, wrong_namespace
from hicachectl.model.attempt import reason
from hicachectl.model.take import count, flag, number, text
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """The last decision before the first prefill."""
    journey = case.journey
    ask, load, admission = journey.load_ask, journey.load, journey.admission
    certain = case.world.certain(journey.attempt.engine)
    args: dict[str, object] = {
        "tokens": number(load, v.TOKENS) if load is not None else len(pages) * journey.page,
        "threshold": number(load, v.LOAD_BACK_THRESHOLD),
        "room": number(load, v.DEVICE_FREE),
        "needed": number(load, v.TOKENS),
        "freed": number(load, v.DEVICE_EVICTABLE),
        "quota": number(load, v.QUOTA),
        "pool": text(load, v.POOL_SHORT),
    }
    code = reason(load) or reason(ask)
    if code == "L07":
        args["reason"] = "it neither evicted nor allocated"
    if code is not None:
        return of_request(journey, code, args=args, evidence=(load, ask, admission), certain=certain)
    blocked = next((span for span in journey.attempt.all(v.ADMISSION) if reason(span) == "L08"), None)
    if blocked is not None:
        args |= {"needed": number(blocked, v.NEEDED), "room": number(blocked, v.BUDGET)}
        return of_request(journey, "L08", args=args, evidence=(blocked, admission), certain=certain and ask is None)
    if admission is not None and flag(admission, v.ADMITTED) and ask is None and not count(admission, v.MATCHED_HOST):
        return _unmatched(case, len(pages) * journey.page)
    if ask is not None and count(ask, v.LOADED_TOKENS):
        return of_request(journey, "G03", args={"tokens": count(ask, v.LOADED_TOKENS)}, evidence=(ask, journey.attempt.first_prefill), certain=False)
    return of_request(journey, "L10", args={"tokens": len(pages) * journey.page}, evidence=(ask, admission, journey.attempt.first_prefill), certain=False)


def _unmatched(case: Case, tokens: int) -> Finding:
    """Published, and not matched by the request: it may not match, its pages went elsewhere, they lack their window, or the host let go."""
    journey = case.journey
    certain = case.world.certain(journey.attempt.engine)
    if match_off.off(journey) is not None:
        return match_off.found(case)
    if wrong_namespace.orphaned(journey) is not None:
        return wrong_namespace.found(journey)
    window, span = journey.attempt.engine.number(v.WINDOW), number(journey.enqueue, v.ACCEPTED_TOKENS)
    if window and span is not None and span // journey.page < -(-window // journey.page):
        args: dict[str, object] = {"tokens": span, "window": window}
        return of_request(journey, "R08", args=args, evidence=(journey.enqueue, journey.publish, journey.admission), certain=certain)
    return of_request(journey, "E05", args={"tokens": tokens}, evidence=(journey.publish, journey.admission), certain=certain)


RULE = LossRule(
    "load back declined",
    ("L02", "L03", "L04", "L05", "L06", "L07", "L08", "L09", "L10", "E05", "G03", "G06", "R27", "R08"),
    (v.LOAD_BACK_ASK, v.LOAD_BACK, v.PREFETCH_PUBLISH, v.PREFETCH_ENQUEUE, v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.ADMISSION, v.PREFILL, v.TREE_OPEN),
    judge,
)
