"""Fetched pages that were in the tree when they arrived: R23, another request with the same prompt was faster."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import count
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """What the insert of this request's pages found there."""
    publish = case.journey.publish
    tokens = count(publish, v.INSERTED_MATCHED)
    if tokens:
        args: dict[str, object] = {"tokens": tokens, "fetched": count(publish, v.TOKENS)}
        yield of_request(case.journey, "R23", args=args, evidence=(publish, case.journey.transfer))


RULE = Rule("already in the tree", ("R23",), (v.PREFETCH_PUBLISH, v.PREFETCH_TRANSFER), of_case=judge, needs=(v.PREFETCH_PUBLISH,))
