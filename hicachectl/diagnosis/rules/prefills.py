"""Prefills after the first that the engine's own account leaves out: chunks (G04), and those after a retraction (G05)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import flag
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """Chunks of one prefill where there is a split to speak of, and how often the request came back to the queue."""
    attempt = case.journey.attempt
    first = attempt.first_prefill
    fresh = [span for span in attempt.all(v.PREFILL) if not flag(span, v.RETRACTED)]
    if len(fresh) > 1 and case.journey.prefix:
        yield of_request(case.journey, "G04", args={"chunks": len(fresh)}, evidence=fresh[:8])
    back = [span for span in attempt.all(v.REQUEST_QUEUED) if flag(span, v.RETRACTED)]
    if back:
        args: dict[str, object] = {"times": len(back)}
        yield of_request(case.journey, "G05", args=args, evidence=(*back[:4], first, attempt.last(v.PREFILL)))


RULE = Rule("later prefills", ("G04", "G05"), (v.PREFILL, v.REQUEST_QUEUED), of_case=judge)
