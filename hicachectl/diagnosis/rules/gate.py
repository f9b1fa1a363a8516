"""The store was not asked: R01 to R07, in the words of the gate itself."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.diagnosis.rules.half_way import mended, stopped
from hicachectl.diagnosis.rules.threads import said
from hicachectl.model.take import count, number, text
from tracers import vocabulary as v

READS = (v.REQUEST_QUEUED, v.PREFETCH_GATE, v.PREFETCH_ENQUEUE, v.ENGINE_START)
CODES = ("R01", "R02", "R03", "R04", "R05", "R06", "R07", "R28")


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """The reason that the process itself saw at the gate, with the numbers that decided."""
    journey = case.journey
    enqueue, gate = journey.enqueue, journey.gate
    args: dict[str, object] = {
        "tokens": number(enqueue, v.ASKED_TOKENS) if enqueue is not None else len(pages) * journey.page,
        "threshold": number(enqueue, v.THRESHOLD),
        "occupied": number(enqueue, v.OCCUPIED),
        "limit": number(enqueue, v.CAPACITY_LIMIT),
        "free": number(enqueue, v.HOST_FREE),
        "matched": journey.matched,
        "mode": text(journey.attempt.engine.first(v.ENGINE_START), v.DISAGGREGATION),
        "rid": journey.attempt.rid,
        "pages": len(pages),
    }
    return of_request(journey, journey.gate_reason or "R09", args=args, evidence=(enqueue, gate), certain=case.world.certain(journey.attempt.engine))


def unseen(case: Case, pages: tuple[int, ...]) -> Finding:
    """No lookup was seen: its thread is dead (R10) or was ended by a detach (A14), or spans are missing and the code can only be guessed."""
    journey = case.journey
    tokens = len(pages) * journey.page
    death = journey.attempt.engine.dead(v.PREFETCH_THREAD, "prefetch_thread", journey.enqueue.end_ns) if journey.enqueue is not None else None
    if death is not None:
        return of_request(journey, "R10", args=said(death) | {"pages": len(pages)}, evidence=(death, journey.enqueue))
    halt = journey.halted
    if halt is not None:
        return of_request(journey, "A14", args=stopped(halt), evidence=(halt, journey.enqueue), serving=mended(journey.attempt.engine, halt))
    threshold = journey.attempt.engine.number(v.THRESHOLD, journey.attempt.start_ns)
    code = "R04" if threshold is not None and tokens < threshold else "R09"
    reason = "the gate was not seen: spans are missing"
    return of_request(journey, code, args={"tokens": tokens, "threshold": threshold, "reason": reason}, evidence=(journey.attempt.first_prefill,), certain=False)


def beyond(case: Case, pages: tuple[int, ...]) -> Finding:
    """The lookup was cut to the host memory that was free: pages behind the cut were not asked for."""
    journey = case.journey
    enqueue = journey.enqueue
    asked, accepted = count(enqueue, v.ASKED_TOKENS), count(enqueue, v.ACCEPTED_TOKENS)
    args: dict[str, object] = {"tokens": asked, "free": number(enqueue, v.HOST_FREE), "pages": len(pages)}
    return of_request(journey, "R06", args=args, evidence=(enqueue, journey.lookup), certain=accepted < asked)


RULE = LossRule("not looked up", CODES, READS, judge)
UNSEEN_RULE = LossRule("lookup not seen", ("R04", "R09", "R10", "A14"), (v.PREFILL, v.PREFETCH_THREAD, v.PREFETCH_ENQUEUE, v.BACKEND_ATTACH, v.BACKEND_DETACH, v.RESET), unseen)
BEYOND_RULE = LossRule("lookup cut", ("R06",), (v.PREFETCH_ENQUEUE, v.PREFETCH_LOOKUP), beyond)
