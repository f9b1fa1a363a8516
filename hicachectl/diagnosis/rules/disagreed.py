"""Another rank found fewer pages: R11."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.take import number
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """This rank's own hit against the agreed one, and the rank that found least."""
    journey = case.journey
    known = {rank: hit for rank, hit in journey.hits.items() if hit is not None}
    least = min(known, key=lambda rank: known[rank], default=None)
    args: dict[str, object] = {"local": number(journey.lookup, v.HIT_TOKENS), "rank": least, "agreed": journey.hit, "pages": len(pages)}
    lookups = [each.first(v.PREFETCH_LOOKUP) for each in journey.ranks if each.engine.tp_rank == least]
    return of_request(journey, "R11", args=args, evidence=(journey.lookup, *lookups, journey.transfer), certain=len(known) > 1)


RULE = LossRule("ranks disagree", ("R11",), (v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER), judge)
