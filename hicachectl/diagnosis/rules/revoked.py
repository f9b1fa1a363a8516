"""Given up before a page was read: the policy (R17), the deadline (R18), no host room (R14), a prefix that could not be held (X07)."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.diagnosis.rules.short_transfer import deadline
from hicachectl.model.attempt import reason
from hicachectl.model.take import number, real
from tracers import vocabulary as v


def told(case: Case) -> str | None:
    """The code that the engine's own reason names, where it is another than too few hits."""
    journey = case.journey
    # Where the lookup has answered all the same, its hits say whether the policy or the threshold cost the pages.
    silent = {None, "R12", "R24"} | ({"R17"} if journey.hit is not None else set())
    codes = (reason(journey.revoke), journey.settled)
    return next((code for code in codes if code not in silent), None)


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """What the engine said when it gave the prefetch up."""
    journey, revoke = case.journey, case.journey.revoke
    code = told(case)
    args: dict[str, object] = {
        "tokens": len(pages) * journey.page,
        "free": number(journey.enqueue, v.HOST_FREE),
        "deadline": deadline(journey),
        "seconds": real(revoke, v.WAITED),
        "done": 0,
        "pages": len(pages),
        "hits": journey.hit,
        "threshold": number(revoke, v.THRESHOLD),
        "reason": next(iter(journey.attempt.engine_reasons), "given up"),
    }
    evidence = (revoke, journey.lookup, *journey.attempt.all(v.PREFETCH_SETTLE)[:2])
    return of_request(journey, code or "R12", args=args, evidence=evidence, certain=code is not None and case.world.certain(journey.attempt.engine))


RULE = LossRule("given up", ("R12", "R14", "R17", "R18", "X07"), (v.PREFETCH_REVOKE, v.PREFETCH_SETTLE, v.PREFETCH_LOOKUP, v.PREFETCH_ENQUEUE, v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.TREE_OPEN), judge)
