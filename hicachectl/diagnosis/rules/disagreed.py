"""Another rank found fewer pages: R11."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.take import number, text
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """This rank's own hit against the agreed one, and the rank that found least."""
    journey = case.journey
    known = {rank: hit for rank, hit in journey.hits.items() if hit is not None}
    least = min(known, key=lambda rank: known[rank], default=None)
    slow = next((rank for rank in journey.ranks if rank.engine.rank == least), None)
    lookup = slow.first(v.PREFETCH_LOOKUP) if slow is not None else None
    calls = slow.inside(lookup, v.STORE_EXIST) if slow is not None else []
    missing = next((text(call, v.FIRST_BAD_KEY) for call in calls if text(call, v.FIRST_BAD_KEY)), None)
    args: dict[str, object] = {"local": number(journey.lookup, v.HIT_TOKENS), "rank": least, "agreed": journey.hit, "pages": len(pages), "key": missing}
    seen = len(known) == journey.attempt.engine.tp_size * journey.attempt.engine.pp_size and case.world.certain(journey.attempt.engine)
    return of_request(journey, "R11", args=args, evidence=(journey.lookup, lookup, *calls, journey.transfer), certain=seen)


RULE = LossRule("ranks disagree", ("R11",), (v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.STORE_EXIST), judge)
