"""KV that was published although another pool of the model had not been read: R21, for attention then runs on what the pool held before."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import Attempt, reason
from hicachectl.model.take import count, text
from hicachectl.store import Span
from tracers import vocabulary as v

TREE = "HiRadixCache"
"""The tree of 0.5.14 that publishes KV whatever became of the indexer (`hiradix_cache.py`, check_prefetch_progress); the unified tree looks at it."""


def judge(case: Case) -> Iterator[Finding]:
    """A read of a side pool that fell short, or had not ended, before the insert of the same prefetch."""
    for rank in case.journey.ranks:
        if rank.engine.text(v.TREE) != TREE:
            continue
        for publish in rank.all(v.PREFETCH_PUBLISH):
            read = _read_before(rank, publish) if count(publish, v.TOKENS) and reason(publish) is None else None
            if read is not None:
                args: dict[str, object] = {"tokens": count(publish, v.TOKENS), "pool": text(read, v.POOL_SHORT) or "indexer", "rank": rank.engine.rank}
                yield of_request(case.journey, "R21", args=args, evidence=(publish, read), causal=True)
                return


def _read_before(rank: Attempt, publish: Span) -> Span | None:
    """The last read of the side pools of the prefetch that is published, where it did not bring all."""
    transfers = [span for span in rank.all(v.PREFETCH_TRANSFER) if span.start_ns <= publish.start_ns]
    reads = rank.inside(transfers[-1] if transfers else None, v.PREFETCH_POOLS_READ)
    return next((read for read in reads if text(read, v.POOL_SHORT) is not None or read.error or read.end_ns > publish.start_ns), None)


RULE = Rule("pool not read", ("R21",), (v.PREFETCH_PUBLISH, v.PREFETCH_TRANSFER, v.PREFETCH_POOLS_READ, v.TREE_OPEN), of_case=judge, needs=(v.PREFETCH_PUBLISH,))
