"""The rung `written`: which pages that a request computed moved to the store."""

from collections.abc import Sequence

from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import NO, NOT_ASKED, UNKNOWN
from hicachectl.model.journey import Journey, Rung, rated
from hicachectl.model.pages import Pages, Write
from tracers import vocabulary as v


def written_rung(journey: Journey, pages: Pages) -> Rung:
    """Pages computed and not known to be in the store before, against those whose every object was put or found there.

    Puts that begin after the request's first prefill count, whichever operation made them: two requests may share a node.
    """
    attempt, engine = journey.attempt, journey.attempt.engine
    prefill = attempt.first_prefill
    if prefill is None or journey.prefix is None:
        return Rung(UNKNOWN)
    if len(attempt.page_keys) < journey.prompt // journey.page:
        return Rung(UNKNOWN)
    if engine.backend_name is None:
        return Rung(NOT_ASKED, 0, 0, [prefill.span_id])
    asked = [key for key, _ in _looked_up(journey, pages)]
    if not attempt.key_suffixes:
        return Rung(UNKNOWN, len(asked))
    done = [found for _, found in _looked_up(journey, pages) if found]
    evidence = list(dict.fromkeys(write.span_id for found in done for write in found))
    rung = rated(len(asked), len(done), evidence or _refusals(journey), sure=not asked)
    if rung.state == NO and not evidence and _under_way(journey, asked):
        rung.state = UNKNOWN
    return rung


def unwritten(journey: Journey, pages: Pages) -> list[str]:
    """Page keys that this request computed and that nobody is known to have left in the store."""
    if journey.attempt.first_prefill is None or journey.prefix is None:
        return []
    return [key for key, found in _looked_up(journey, pages) if not found]


def _looked_up(journey: Journey, pages: Pages) -> list[tuple[str, list[Write]]]:
    """Page keys asked of the rung, each with its writes; worked out once for a request."""
    if journey.writes is None:
        journey.writes = [(key, _writes(journey, pages, key)) for key in _asked(journey, pages)]
    return journey.writes


def _asked(journey: Journey, pages: Pages) -> list[str]:
    """Full pages that were computed and that some rank is not known to have had in the store before, by a write or by its own lookup."""
    computed = journey.attempt.page_keys[(journey.prefix or 0) // journey.page :]
    return [key for key in computed if not all(_there(rank, pages, key) for rank in journey.ranks)]


def _there(rank: Attempt, pages: Pages, key: str) -> bool:
    if key in rank.present or key in rank.absent:
        return key in rank.present
    return bool(pages.known(rank.key_prefix, key, rank.key_suffixes, _begun(rank)))


def _begun(rank: Attempt) -> int:
    prefill = rank.first_prefill
    return prefill.start_ns if prefill is not None else rank.start_ns


def _writes(journey: Journey, pages: Pages, key: str) -> list[Write]:
    """The writes of a page on every rank that had not had it; empty where one rank's is not seen."""
    found: list[Write] = []
    for rank in journey.ranks:
        if _there(rank, pages, key):
            continue
        own = pages.after(rank.key_prefix, key, rank.key_suffixes, _begun(rank))
        if not own:
            return []
        found += own
    return found


def _refusals(journey: Journey) -> list[str]:
    """Spans that show a write begun or refused, for a rung that has no put to show."""
    names = (v.WRITE_STORE, v.WRITE_ENQUEUE, v.WRITE_BACKUP, v.WRITE_INSERT, v.REQUEST_FINISHED)
    return [span.span_id for name in names for span in journey.attempt.all(name)][:8]


def _under_way(journey: Journey, asked: Sequence[str]) -> bool:
    """Whether the pages were queued for the store and the recording ends before the thread came to them."""
    attempt, engine = journey.attempt, journey.attempt.engine
    queued, stored = attempt.last(v.WRITE_ENQUEUE), attempt.last(v.WRITE_STORE)
    backed = attempt.last(v.WRITE_BACKUP)
    if engine.writes_nothing or not asked or stored is not None:
        return False
    if queued is None:
        return backed is not None and (backed.attributes.get(v.WRITTEN_TOKENS) or 0) != 0
    stopped = any(span.end_ns >= queued.start_ns for span in engine.all(v.WRITE_THREAD))
    ended = engine.dead(v.WRITE_THREAD, "backup", queued.start_ns) or engine.halted(queued.start_ns)
    return not stopped and ended is None
