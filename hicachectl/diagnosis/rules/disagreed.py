"""Another rank found fewer pages: R11."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.take import number
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """This rank's own hit against the agreed one, and the rank that found least."""
    journey = case.journey
    hits = {rank.engine.tp_rank: number(rank.first(v.PREFETCH_LOOKUP), v.HIT_TOKENS) for rank in journey.ranks}
    known = {rank: hit for rank, hit in hits.items() if hit is not None}
    least = min(known, key=lambda rank: known[rank], default=None)
    args: dict[str, object] = {"local": number(journey.lookup, v.HIT_TOKENS), "rank": least, "agreed": journey.agreed, "pages": len(pages)}
    return of_request(journey, "R11", args=args, evidence=(journey.lookup, journey.transfer), certain=len(known) > 1)


RULE = LossRule("ranks disagree", ("R11",), (v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER), judge)
