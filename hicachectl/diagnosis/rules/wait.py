"""A prefetch that was done long before its request was admitted: R19, with the wait split."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.diagnosis.times import times
from tracers import vocabulary as v

LONG_MS = 1000.0
SHARE = 2.0


def judge(case: Case) -> Iterator[Finding]:
    """Noticed or admitted a second or more after the transfer ended, and longer than the transfer itself took; else the rank that does not notice."""
    told = _late(case) or _stuck(case)
    if told is not None:
        yield told


def _late(case: Case) -> Finding | None:
    spent = case.times or times(case.journey)
    transfer, late = spent["transfer"], spent["notice"] + spent["admission"]
    if case.journey.transfer is None or late < LONG_MS or late < SHARE * transfer:
        return None
    args: dict[str, object] = {
        "total_ms": round(transfer + late),
        "transfer_ms": round(transfer),
        "notice_ms": round(spent["notice"]),
        "admission_ms": round(spent["admission"]),
    }
    return of_request(case.journey, "R19", args=args, evidence=(case.journey.transfer, case.journey.finish, case.journey.attempt.first_prefill))


def _stuck(case: Case) -> Finding | None:
    """Every rank has read its pages, one does not end the prefetch: the check is a collective, so that all ranks stand still."""
    ranks = case.journey.ranks
    reads = [rank.last(v.PREFETCH_TRANSFER) for rank in ranks]
    if len(ranks) < max(2, case.journey.attempt.engine.tp_size) or any(read is None for read in reads):
        return None
    done_ns = max(read.end_ns for read in reads if read is not None)
    ends = {rank.engine.tp_rank: rank.last(v.PREFETCH_FINISH) for rank in ranks}
    seen_ns = case.world.recording.ended_ns
    late = {rank: (end.start_ns if end is not None else seen_ns) - done_ns for rank, end in ends.items()}
    slow = max(late, key=lambda rank: late[rank])
    if late[slow] < LONG_MS * 1_000_000 or late[slow] < SHARE * min(late.values()):
        return None
    args: dict[str, object] = {
        "total_ms": round(late[slow] / 1e6),
        "transfer_ms": round(case.journey.transfer.duration_ns / 1e6) if case.journey.transfer is not None else 0,
        "notice_ms": round(late[slow] / 1e6),
        "admission_ms": 0,
        "rank": slow,
        "ended": ends[slow] is not None,
    }
    return of_request(case.journey, "R19", args=args, evidence=(*reads, *ends.values()))


RULE = Rule("long wait", ("R19",), (v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.LOAD_BACK_ASK, v.LOAD_BACK_START, v.LOAD_BACK_DONE, v.PREFILL), of_case=judge, needs=(v.PREFETCH_TRANSFER,))
