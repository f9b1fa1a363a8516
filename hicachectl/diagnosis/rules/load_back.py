"""In host memory, not on the device: L02, L04, L05, L08 as the tree or the adder decided, E05 where the host let go meanwhile."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.attempt import reason
from hicachectl.model.take import count, flag, number
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
    }
    code = reason(load) or reason(ask)
    if code is not None:
        return of_request(journey, code, args=args, evidence=(load, ask, admission), certain=certain)
    blocked = next((span for span in journey.attempt.all(v.ADMISSION) if reason(span) == "L08"), None)
    if blocked is not None:
        args |= {"needed": number(blocked, v.NEEDED), "room": number(blocked, v.BUDGET)}
        return of_request(journey, "L08", args=args, evidence=(blocked, admission), certain=certain and ask is None)
    if admission is not None and flag(admission, v.ADMITTED) and ask is None and not count(admission, v.MATCHED_HOST):
        return of_request(journey, "E05", args={"tokens": len(pages) * journey.page}, evidence=(journey.publish, admission), certain=certain)
    if ask is not None and count(ask, v.LOADED_TOKENS):
        return of_request(journey, "G03", args={"tokens": count(ask, v.LOADED_TOKENS)}, evidence=(ask, journey.attempt.first_prefill), certain=False)
    return of_request(journey, "L10", args={"tokens": len(pages) * journey.page}, evidence=(ask, admission, journey.attempt.first_prefill), certain=False)


RULE = LossRule("load back declined", ("L02", "L04", "L05", "L08", "L10", "E05", "G03"), (v.LOAD_BACK_ASK, v.LOAD_BACK, v.PREFETCH_PUBLISH, v.ADMISSION, v.PREFILL), judge)
