"""Objects that were in the store when they were about to be written: W12, success with 0 bytes moved."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import count
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """Existence answers inside a write, against the bytes that its puts moved."""
    journey = case.journey
    there = moved = 0
    evidence = []
    for operation in journey.attempt.all(v.WRITE_STORE):
        for span in journey.attempt.inside(operation, v.STORE_EXIST):
            there += count(span, v.OBJECTS_OK)
            evidence.append(span)
        moved += sum(count(span, v.BYTES) for span in journey.attempt.inside(operation, v.STORE_PUT))
    if there:
        yield of_request(journey, "W12", args={"objects": there, "bytes": moved}, evidence=evidence)


RULE = Rule("already there", ("W12",), (v.WRITE_STORE, v.STORE_EXIST, v.STORE_PUT), of_case=judge, needs=(v.WRITE_STORE,))
