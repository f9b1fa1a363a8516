"""Inserts that were not counted as hits, so that no write began: W03, for inserts of a chunk do not count."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import count, flag
from hicachectl.model.written import unwritten
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """A request that ended with its chunks in the tree and no insert that counts (0.5.14 `hiradix_cache.py`, _inc_hit_count; an abort inserts nothing)."""
    journey, attempt = case.journey, case.journey.attempt
    inserts, ended = attempt.all(v.WRITE_INSERT), attempt.last(v.REQUEST_FINISHED)
    if not inserts or ended is None or not all(flag(span, v.CHUNKED) for span in inserts):
        return
    if attempt.engine.text(v.WRITE_POLICY, attempt.start_ns) != "write_through":
        return
    there = attempt.page_keys[: max(count(span, v.TOKENS) for span in inserts) // journey.page]
    left = {*unwritten(journey, case.world.pages)} & {key for key in there if not case.world.pages.copied(attempt.engine.id, key, attempt.start_ns)}
    if left:
        args: dict[str, object] = {"tokens": len(left) * journey.page, "reason": "inserts of a chunk do not count", "inserts": len(inserts)}
        told = {"certain": case.world.certain(attempt.engine), "unwritten": frozenset(left), "time_ns": ended.end_ns}
        yield of_request(journey, "W03", args=args, evidence=(*inserts[:4], ended), **told)


RULE = Rule(
    "not counted",
    ("W03",),
    (v.WRITE_INSERT, v.REQUEST_FINISHED, v.WRITE_BACKUP, v.WRITE_STORE, v.STORE_PUT, v.STORE_EXIST, v.PREFETCH_LOOKUP, v.PREFILL),
    of_case=judge,
    needs=(v.WRITE_INSERT, v.REQUEST_FINISHED),
)
