"""Computed pages that the policy does not write yet: W01 for write_back, W02 for write_through_selective."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.engine import NO, PARTIAL
from hicachectl.model.written import unwritten, written_rung
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """Pages asked of the rung `written` for which not even a host copy was begun."""
    journey = case.journey
    engine, attempt = journey.attempt.engine, journey.attempt
    left = unwritten(journey, case.world.pages)
    kept = [key for key in left if not case.world.pages.copied(engine.id, key, attempt.start_ns)]
    if not kept or not attempt.all(v.WRITE_INSERT) + attempt.all(v.REQUEST_FINISHED) or written_rung(journey, case.world.pages).state not in (NO, PARTIAL):
        return
    policy, threshold = engine.text(v.WRITE_POLICY, attempt.start_ns), engine.number(v.WRITE_THRESHOLD, attempt.start_ns)
    args: dict[str, object] = {"tokens": len(kept) * journey.page}
    last = attempt.last(v.REQUEST_FINISHED)
    evidence = (*attempt.all(v.WRITE_INSERT)[:2], last, engine.last(v.CONTROLLER_OPEN))
    told = {"evidence": evidence, "certain": case.world.certain(engine), "unwritten": frozenset(kept), "time_ns": attempt.start_ns}
    if policy == "write_back":
        yield of_request(journey, "W01", args=args, **told)
    elif policy == "write_through_selective":
        yield of_request(journey, "W02", args=args | {"hits": 1, "threshold": threshold}, **told)


RULE = Rule("write policy", ("W01", "W02"), (v.PREFETCH_LOOKUP, v.STORE_EXIST, v.WRITE_BACKUP, v.WRITE_INSERT, v.WRITE_ENQUEUE, v.WRITE_STORE, v.REQUEST_FINISHED, v.CONTROLLER_OPEN, v.TREE_OPEN, v.BACKEND_ATTACH_ASKED), of_case=judge)
