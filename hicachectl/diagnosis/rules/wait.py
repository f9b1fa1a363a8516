"""A prefetch that was done long before its request was admitted: R19, with the wait split."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.diagnosis.times import times
from tracers import vocabulary as v

LONG_MS = 1000.0
SHARE = 2.0


def judge(case: Case) -> Iterator[Finding]:
    """Noticed or admitted a second or more after the transfer ended, and longer than the transfer itself took."""
    spent = times(case.journey)
    transfer, late = spent["transfer"], spent["notice"] + spent["admission"]
    if case.journey.transfer is None or late < LONG_MS or late < SHARE * transfer:
        return
    args: dict[str, object] = {
        "total_ms": round(transfer + late),
        "transfer_ms": round(transfer),
        "notice_ms": round(spent["notice"]),
        "admission_ms": round(spent["admission"]),
    }
    yield of_request(case.journey, "R19", args=args, evidence=(case.journey.transfer, case.journey.finish, case.journey.attempt.first_prefill))


RULE = Rule("long wait", ("R19",), (v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.LOAD_BACK_ASK, v.LOAD_BACK_START, v.LOAD_BACK_DONE, v.PREFILL), of_case=judge)
