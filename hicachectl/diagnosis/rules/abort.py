"""A request that was aborted while its prefetch was under way, and never reached a prefill: R25."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """The abort, and what had arrived by then."""
    journey = case.journey
    abort = journey.attempt.first(v.PREFETCH_ABORT)
    if abort is None or journey.prefix is not None:
        return
    args: dict[str, object] = {"done": (journey.arrived or 0) // journey.page, "pages": (journey.agreed or 0) // journey.page}
    yield of_request(journey, "R25", args=args, evidence=(abort, journey.transfer, journey.lookup))


RULE = Rule("aborted", ("R25",), (v.PREFETCH_ABORT, v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.PREFETCH_LOOKUP, v.PREFILL), of_case=judge, needs=(v.PREFETCH_ABORT,))
