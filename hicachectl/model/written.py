"""The rung `written`: which pages that a request computed moved to the store."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import NO, NOT_ASKED, UNKNOWN
from hicachectl.model.journey import Journey, Rung, rated
from hicachectl.model.pages import Pages, Write, after, alike
from tracers import vocabulary as v

_Writes: TypeAlias = list[Sequence[Write] | None]
"""Writes of one page after the other."""


def written_rung(journey: Journey, pages: Pages) -> Rung:
    """Pages computed and not known to be in the store before, against those whose every object was put or found there.

    Puts that begin after the request's first prefill count, whichever operation made them: two requests may share a node.
    """
    attempt, engine = journey.attempt, journey.attempt.engine
    prefill = attempt.first_prefill
    if prefill is None or journey.prefix is None:
        return Rung(UNKNOWN)
    if len(attempt.page_names) < journey.prompt // journey.page:
        return Rung(UNKNOWN)
    if engine.backend_name is None:
        return Rung(NOT_ASKED, 0, 0, [prefill.span_id])
    runs = _looked_up(journey, pages)
    asked = sum(len(places) for places, _ in runs)
    if not attempt.key_suffixes:
        return Rung(UNKNOWN, asked)
    done = sum(len(places) for places, found in runs if found)
    evidence = list(dict.fromkeys(write.span_id for _, found in runs for write in found))
    rung = rated(asked, done, evidence or _refusals(journey), sure=not asked)
    if rung.state == NO and not evidence and _under_way(journey, asked):
        rung.state = UNKNOWN
    return rung


def unwritten(journey: Journey, pages: Pages) -> list[str]:
    """Page keys that this request computed and that nobody is known to have left in the store."""
    if journey.attempt.first_prefill is None or journey.prefix is None:
        return []
    left = [places for places, found in _looked_up(journey, pages) if not found]
    return [key for places in left for key in journey.attempt.page_keys[places.start : places.stop]]


def _looked_up(journey: Journey, pages: Pages) -> list[tuple[range, list[Write]]]:
    """Places of the pages asked of the rung, those together that share their writes; worked out once for a request.

    Asked are full pages that were computed and that some rank is not known to have had in the store before, by a write or by its own
    lookup. The writes are those on every rank that had not had them; none where one rank's is not seen.
    """
    if journey.writes is None:
        first = (journey.prefix or 0) // journey.page
        by_rank = [_writes(rank, pages, journey.attempt.page_names, first) for rank in journey.ranks]
        journey.writes = []
        for length, every in _together(by_rank):
            lacking = [writes for writes in every if writes is not None]
            if lacking:
                journey.writes.append((range(first, first + length), [write for writes in lacking for write in writes] if all(lacking) else []))
            first += length
    return journey.writes


def _together(by_rank: list[_Writes]) -> Iterator[tuple[int, tuple[Sequence[Write] | None, ...]]]:
    """How many pages that follow each other share their writes on every rank, and these of each rank."""
    if len(by_rank) == 1:
        yield from ((length, (writes,)) for length, writes in alike(by_rank[0]))
        return
    for _, run in groupby(zip(*by_rank, strict=True), lambda page: tuple(map(id, page))):
        same = list(run)
        yield len(same), same[0]


def _writes(rank: Attempt, pages: Pages, names: Sequence[Hashable], first: int) -> _Writes:
    """For each page from FIRST on the writes that this rank made of it; None where the rank is known to have had it before.

    What the rank's own lookup said of a page goes before what is known from writes. A request that put the page has found it gone.
    """
    began, present = _begun(rank), rank.present
    found: _Writes = []
    for length, writes in pages.runs(rank.key_prefix, names, first):
        later = after(writes, rank.key_suffixes, began)
        there = bool(pages.known(writes, rank.key_suffixes, began)) and not _put_anew(rank, writes, began)
        if there or present:
            run = names[first + len(found) : first + len(found) + length]
            found += [None if name in present or (there and name not in rank.absent) else later for name in run]
        else:
            found += [later] * length
    return found


def _put_anew(rank: Attempt, writes: Sequence[Write], began_ns: int) -> bool:
    return any(write.moved and write.rid == rank.rid and write.engine == rank.engine.id and write.time_ns >= began_ns for write in writes)


def _begun(rank: Attempt) -> int:
    prefill = rank.first_prefill
    return prefill.start_ns if prefill is not None else rank.start_ns


def _refusals(journey: Journey) -> list[str]:
    """Spans that show a write begun or refused, for a rung that has no put to show."""
    names = (v.WRITE_STORE, v.WRITE_ENQUEUE, v.WRITE_BACKUP, v.WRITE_INSERT, v.REQUEST_FINISHED)
    return [span.span_id for name in names for span in journey.attempt.all(name)][:8]


def _under_way(journey: Journey, asked: int) -> bool:
    """Whether the pages were queued for the store and the recording ends before the thread came to them."""
    attempt, engine = journey.attempt, journey.attempt.engine
    queued, stored = attempt.last(v.WRITE_ENQUEUE), attempt.last(v.WRITE_STORE)
    backed = attempt.last(v.WRITE_BACKUP)
    if engine.writes_nothing or not asked or stored is not None:
        return False
    if queued is None:
        return backed is not None and (backed.get(v.WRITTEN_TOKENS) or 0) != 0
    stopped = any(span.end_ns >= queued.start_ns for span in engine.all(v.WRITE_THREAD))
    ended = engine.dead(v.WRITE_THREAD, "backup", queued.start_ns) or engine.halted(queued.start_ns)
    return not stopped and ended is None
