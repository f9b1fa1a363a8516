"""One step of a request on every rank of its server: what each rank had, and by how much it came after the first."""

from typing import TYPE_CHECKING

from hicachectl.model.attempt import Attempt
from hicachectl.model.take import count, number
from hicachectl.store import Span
from tracers import vocabulary as v

if TYPE_CHECKING:
    from hicachectl.model.journey import Journey


def same_step(attempt: Attempt, ranks: list[Attempt], name: str, own: Span | None) -> dict[int, Span]:
    """Rank -> its span of this name that answers to OWN of ATTEMPT: every rank prefetches in the same order."""
    spans = attempt.all(name)
    if own is None or own not in spans:
        return {}
    place = spans.index(own)
    return {each.engine.rank: each.all(name)[place] for each in ranks if place < len(each.all(name))}


def numbers_of(attempt: Attempt, ranks: list[Attempt], name: str, own: Span | None, key: str) -> dict[int, int | None]:
    """Rank -> a number of its span that answers to OWN."""
    if len(ranks) == 1:
        return {attempt.engine.rank: number(own, key)} if own is not None and own in attempt.all(name) else {}
    return {rank: number(span, key) for rank, span in same_step(attempt, ranks, name, own).items()}


def read_by_rank(journey: "Journey") -> dict[int, int | None]:
    """Rank -> tokens that it had read when the scheduler took them.

    From 0.5.23 on the scheduler takes the least of all ranks: what a rank had read by itself is in its transfer.
    """
    read = numbers_of(journey.attempt, journey.ranks, v.PREFETCH_FINISH, journey.finish, v.DONE_TOKENS)
    transfers = same_step(journey.attempt, journey.ranks, v.PREFETCH_TRANSFER, journey.transfer)
    for each in journey.ranks:
        transfer, finish = transfers.get(each.engine.rank), each.last(v.PREFETCH_FINISH)
        if transfer is not None and finish is not None and transfer.end_ns <= finish.end_ns:
            read[each.engine.rank] = max(read.get(each.engine.rank) or 0, count(transfer, v.DONE_TOKENS))
    return read


def apart(journey: "Journey") -> list[dict[str, float | int | None]]:
    """Where a request ran on more than one rank: what each found and read, in tokens, and how long after the first rank it was done, in ms.

    The ranks of one server run on clocks of their own where they are on hosts of their own: what is told in ms is then as good as these agree.
    """
    if len(journey.ranks) < 2:
        return []
    read, found = read_by_rank(journey), journey.hits
    lookups = _after(same_step(journey.attempt, journey.ranks, v.PREFETCH_LOOKUP, journey.lookup))
    transfers = _after(same_step(journey.attempt, journey.ranks, v.PREFETCH_TRANSFER, journey.transfer))
    return [
        {"rank": rank, "found_tokens": found.get(rank), "read_tokens": read.get(rank), "lookup_after_ms": lookups.get(rank), "transfer_after_ms": transfers.get(rank)}
        for rank in sorted(each.engine.rank for each in journey.ranks)
    ]


def _after(spans: dict[int, Span]) -> dict[int, float]:
    first = min((span.end_ns for span in spans.values()), default=0)
    return {rank: round((span.end_ns - first) / 1e6, 3) for rank, span in spans.items()}
