"""Prefix matching that is switched off for a request: G06, whatever device and host hold."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.journey import Journey
from hicachectl.model.take import text
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """What the gate saw of the switch."""
    if off(case.journey) is not None:
        yield found(case)


def off(journey: Journey) -> str | None:
    """What switched it off, in SGLang's own name."""
    return text(journey.gate, v.MATCH_OFF)


def found(case: Case) -> Finding:
    """The switch by its name; what was fetched all the same is never matched."""
    journey = case.journey
    return of_request(journey, "G06", args={"reason": off(journey)}, evidence=(journey.gate, journey.attempt.first_prefill))


RULE = Rule("matching off", ("G06",), (v.PREFETCH_GATE, v.PREFILL), of_case=judge, needs=(v.PREFETCH_GATE,))
