"""Which requests came with an extra key (LoRA adapter, cache salt): few in most recordings, found once for a recording."""

from collections.abc import Iterable

from hicachectl.model.attempt import Attempt
from hicachectl.model.journey import Journey
from hicachectl.model.take import flag, number
from hicachectl.store import Span
from tracers import vocabulary as v


def named(journeys: Iterable[Journey]) -> list[Journey]:
    """The requests that have an extra key, in their order; what was looked at for it is let go."""
    found = []
    for journey in journeys:
        queued = _queued(journey.attempt)
        if queued is not None and flag(queued, v.EXTRA_KEY):
            found.append(journey)
        elif queued is not None:
            queued.forget()
    return found


def has_extra_key(attempt: Attempt) -> bool:
    """Whether the request brought an extra key."""
    return flag(_queued(attempt), v.EXTRA_KEY)


def namespace(attempt: Attempt) -> int | None:
    """The number of its extra key in its own process, 0 for none; None where it is not told."""
    return number(_queued(attempt), v.NAMESPACE)


def differ(one: Attempt, other: Attempt) -> bool:
    """Whether two requests are known to have different extra keys: numbers are of one process, that there is none is the same everywhere."""
    if _queued(one) is None or _queued(other) is None:
        return False
    mine, theirs = namespace(one), namespace(other)
    if one.engine is other.engine and mine is not None and theirs is not None:
        return mine != theirs
    return has_extra_key(one) != has_extra_key(other)


def _queued(attempt: Attempt) -> Span | None:
    return next((span for span in attempt.own if span.name == v.REQUEST_QUEUED), None)
