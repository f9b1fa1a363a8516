"""The lookup failed, which the engine counts as a miss: R10 for an exception, K13 where a token did not fit, R101 for a negative code."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule, Rule
from hicachectl.diagnosis.rules.gap import written_before
from hicachectl.diagnosis.rules.threads import said
from hicachectl.model.take import text
from hicachectl.mooncake.errors import store
from tracers import vocabulary as v

TOO_WIDE = "OverflowError"
"""What hashing a token of more than 4 bytes raises (SGLang 0.5.14 `mem_cache/utils.py`, get_hash_str); nothing else in a lookup does."""


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """The store that forgot what was written; else the exception or the code, and the time that it cost."""
    return _forgotten(case, pages) or _failed(case, len(pages))


def _failed(case: Case, pages: int) -> Finding:
    journey = case.journey
    failed = next((each for each in journey.on_ranks if each.lookup_code is not None or (each.lookup is not None and each.lookup.error)), journey)
    lookup, calls = failed.lookup, failed.lookup_calls
    if lookup is not None and lookup.error:
        if text(lookup, v.ERROR) == TOO_WIDE:
            return of_request(journey, "K13", args=said(lookup) | {"pages": pages}, evidence=(lookup, failed.attempt.first(v.REQUEST_QUEUED)))
        return of_request(journey, "R10", args=said(lookup) | {"pages": pages}, evidence=(lookup,))
    code = failed.lookup_code
    row = store(code) if code is not None else None
    worst = max(calls, key=lambda call: call.span.duration_ns, default=None)
    args: dict[str, object] = {
        "code": code,
        "name": row.name if row else "UNKNOWN",
        "ms": round(worst.span.duration_ns / 1e6) if worst is not None else None,
        "pages": pages,
        "rank": failed.attempt.engine.rank,
    }
    return of_request(journey, "R101", args=args, evidence=(lookup, *(call.span for call in calls)), certain=code is not None)


def _forgotten(case: Case, pages: tuple[int, ...]) -> Finding | None:
    """The store has lost what this recording wrote: that the first call after a restart fails as well follows from it."""
    writes, journey = written_before(case, pages), case.journey
    if not writes or journey.lookup is None:
        return None
    engine = journey.attempt.engine
    samples = case.world.forgotten(engine, max(write.time_ns for write in writes), journey.lookup.end_ns)
    if samples is None:
        return None
    objects = len(pages) * max(1, len(journey.attempt.key_suffixes))
    args: dict[str, object] = {"objects": objects, "evictions": 0, "found": 0, "code": journey.lookup_code}
    evidence = (journey.lookup, *samples, *dict.fromkeys(write.span_id for write in writes[:8]))
    return of_request(journey, "E101", args=args, evidence=evidence, certain=case.world.certain(engine))


def unknown(case: Case) -> Iterator[Finding]:
    """Whether or not the pages are known to be in the store: who could not ask has not missed."""
    journey = case.journey
    if journey.lookup is not None and (journey.lookup.error or (journey.lookup_code is not None and not journey.hit)):
        found = _failed(case, journey.asked_pages)
        found.causal = True
        yield found


READS = (v.PREFETCH_LOOKUP, v.STORE_EXIST, v.REQUEST_QUEUED)
RULE = LossRule("lookup failed", ("R10", "R101", "E101", "K13"), (*READS, v.STORE_SAMPLE, v.STORE_PUT), judge)
UNKNOWN_RULE = Rule("lookup failed, whatever is there", ("R10", "R101", "K13"), READS, of_case=unknown, needs=(v.PREFETCH_LOOKUP,))
