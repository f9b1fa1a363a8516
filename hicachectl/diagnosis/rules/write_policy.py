"""Computed pages that the policy does not write yet: W01 for write_back, W02 for write_through_selective."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.engine import NO, PARTIAL
from hicachectl.model.written import written_rung
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """Pages asked of the rung `written` for which not even a host copy was begun."""
    journey = case.journey
    engine, attempt = journey.attempt.engine, journey.attempt
    rung = written_rung(journey, case.world.pages)
    if rung.state not in (NO, PARTIAL) or attempt.all(v.WRITE_BACKUP) or not attempt.all(v.WRITE_INSERT) + attempt.all(v.REQUEST_FINISHED):
        return
    policy, threshold = engine.text(v.WRITE_POLICY), engine.number(v.WRITE_THRESHOLD)
    tokens = (rung.asked - rung.done) * journey.page
    evidence = (*attempt.all(v.WRITE_INSERT)[:2], attempt.last(v.REQUEST_FINISHED), engine.last(v.CONTROLLER_OPEN))
    if policy == "write_back":
        yield of_request(journey, "W01", args={"tokens": tokens}, evidence=evidence, certain=case.world.certain(engine))
    elif policy == "write_through_selective":
        yield of_request(journey, "W02", args={"hits": 1, "threshold": threshold, "tokens": tokens}, evidence=evidence, certain=case.world.certain(engine))


RULE = Rule("write policy", ("W01", "W02"), (v.WRITE_BACKUP, v.WRITE_INSERT, v.REQUEST_FINISHED, v.CONTROLLER_OPEN, v.TREE_OPEN), of_case=judge)
