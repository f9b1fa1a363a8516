"""Lookups that were repeated as often as they may be, and pages that were lost all the same: R26."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import count
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """The retries that the gate counted against the most that the settings allow; a cold prompt is looked up as often and loses nothing."""
    journey = case.journey
    most = journey.attempt.engine.number(v.RETRIES)
    gates = journey.attempt.all(v.PREFETCH_GATE)
    tried = max((count(span, v.RETRY) for span in gates), default=0)
    if most and tried >= most and case.account.lost_pages:
        yield of_request(journey, "R26", args={"attempts": tried, "most": most}, evidence=(gates[-1], journey.lookup, journey.attempt.first_prefill))


RULE = Rule("retries used up", ("R26",), (v.PREFETCH_GATE, v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.PREFILL, v.ENGINE_START), of_case=judge, needs=(v.PREFETCH_GATE,))
