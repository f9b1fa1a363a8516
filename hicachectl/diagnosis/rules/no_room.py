"""Found by every rank, and staged for fewer tokens than found: the host had no room (R14)."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.take import number
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """Tokens agreed against tokens that the transfer was given room for."""
    journey = case.journey
    args: dict[str, object] = {"tokens": journey.hit, "free": number(journey.enqueue, v.HOST_FREE), "staged": journey.agreed, "pages": len(pages)}
    evidence = (journey.transfer, journey.lookup, *journey.attempt.all(v.PREFETCH_SETTLE)[:2])
    told = journey.settled == "R14"
    return of_request(journey, "R14", args=args, evidence=evidence, certain=told and case.world.certain(journey.attempt.engine))


RULE = LossRule("no host room", ("R14",), (v.PREFETCH_TRANSFER, v.PREFETCH_LOOKUP, v.PREFETCH_ENQUEUE, v.PREFETCH_FINISH, v.PREFETCH_SETTLE), judge)
