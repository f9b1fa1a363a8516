"""The rung `written`: which pages that a request computed moved to the store."""

from collections.abc import Sequence

from hicachectl.model.engine import NO, NOT_ASKED, UNKNOWN
from hicachectl.model.journey import Journey, Rung, rated
from hicachectl.model.pages import Pages
from tracers import vocabulary as v


def written_rung(journey: Journey, pages: Pages) -> Rung:
    """Pages computed and not known to be in the store before, against those whose every object was put or found there.

    Puts that begin after the request's first prefill count, whichever operation made them: two requests may share a node.
    """
    attempt, engine = journey.attempt, journey.attempt.engine
    prefill = attempt.first_prefill
    if prefill is None or journey.prefix is None:
        return Rung(UNKNOWN)
    computed = attempt.page_keys[journey.prefix // journey.page :]
    if len(attempt.page_keys) < journey.prompt // journey.page:
        return Rung(UNKNOWN)
    if engine.backend_name is None:
        return Rung(NOT_ASKED, 0, 0, [prefill.span_id])
    if not engine.key_suffixes:
        return Rung(UNKNOWN, len(computed))
    asked = [key for key in computed if not pages.known(engine.key_prefix, key, engine.key_suffixes, prefill.start_ns)]
    writes = [pages.after(engine.key_prefix, key, engine.key_suffixes, prefill.start_ns) for key in asked]
    done = [found for found in writes if found]
    evidence = list(dict.fromkeys(write.span_id for found in done for write in found))
    rung = rated(len(asked), len(done), evidence or _refusals(journey))
    if rung.state == NO and not evidence and _under_way(journey, asked):
        rung.state = UNKNOWN
    return rung


def _refusals(journey: Journey) -> list[str]:
    """Spans that show a write begun or refused, for a rung that has no put to show."""
    names = (v.WRITE_STORE, v.WRITE_ENQUEUE, v.WRITE_BACKUP, v.WRITE_INSERT, v.REQUEST_FINISHED)
    return [span.span_id for name in names for span in journey.attempt.all(name)][:8]


def _under_way(journey: Journey, asked: Sequence[str]) -> bool:
    """Whether the pages were queued for the store and the recording ends before the thread came to them."""
    queued, ended = journey.attempt.last(v.WRITE_ENQUEUE), journey.attempt.last(v.WRITE_STORE)
    backed = journey.attempt.last(v.WRITE_BACKUP)
    if journey.attempt.engine.writes_nothing or not asked:
        return False
    begun = queued is not None or (backed is not None and (backed.attributes.get(v.WRITTEN_TOKENS) or 0) != 0)
    died = bool(journey.attempt.engine.all(v.WRITE_THREAD)) and journey.attempt.engine.all(v.WRITE_THREAD)[-1].error
    return begun and ended is None and not died
