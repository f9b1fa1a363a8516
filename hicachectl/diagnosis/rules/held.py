"""A request that waited for room on the device while its pages lay in host memory: L08, without a loss."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import reason
from hicachectl.model.take import flag, number
from tracers import vocabulary as v

LONG_NS = 500_000_000
"""Running requests make room for the next in less, where the device pool has its size."""


def judge(case: Case) -> Iterator[Finding]:
    """The first refusal for room, and how long it was until the request was admitted."""
    tries = case.journey.attempt.all(v.ADMISSION)
    refused = next((span for span in tries if reason(span) == "L08"), None)
    if refused is None:
        return
    taken = next((span for span in tries if flag(span, v.ADMITTED) and span.start_ns >= refused.start_ns), None)
    end = taken or case.journey.attempt.first_prefill
    if end is not None and end.start_ns - refused.start_ns < LONG_NS:
        return
    args: dict[str, object] = {
        "needed": number(refused, v.NEEDED),
        "room": number(refused, v.BUDGET),
        "tokens": number(refused, v.MATCHED_HOST),
        "waited_ms": round((end.start_ns - refused.start_ns) / 1e6) if end is not None else None,
    }
    yield of_request(case.journey, "L08", args=args, evidence=(refused, taken))


RULE = Rule("held back", ("L08",), (v.ADMISSION, v.PREFILL), of_case=judge, needs=(v.ADMISSION,))
