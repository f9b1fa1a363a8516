"""Objects in the store that requests of different namespaces share: K12, for the page key says nothing of adapter or salt."""

from collections import defaultdict
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.attempt import Attempt
from hicachectl.model.journey import Journey
from hicachectl.model.pages import Write
from hicachectl.model.take import flag, number
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Pages that one request read, and that a request of another namespace had written under the same key."""
    writers: dict[tuple[str, str | None], list[Attempt]] = defaultdict(list)
    for journey in world.journeys:
        for rank in journey.ranks:
            writers[rank.engine.id, rank.rid].append(rank)
    for journey in world.journeys:
        told = _shared(world, journey, writers)
        if told is not None:
            yield told


def _shared(world: World, journey: Journey, writers: dict[tuple[str, str | None], list[Attempt]]) -> Finding | None:
    mine, objects, shown = journey.attempt, 0, []
    others: set[int | None] = set()
    for call in journey.transfer_calls:
        for page in call.pages:
            write = _foreign(mine, world.pages.before(call.prefix, page.page_key, mine.start_ns), writers) if page.good else None
            if write is not None:
                objects += len(page.good)
                others.add(_number(writers[write.engine, write.rid][-1]))
                shown.append(write.span_id)
    if not objects:
        return None
    args: dict[str, object] = {"namespaces": 1 + len(others), "objects": objects}
    return of_request(journey, "K12", args=args, evidence=(mine.first(v.REQUEST_QUEUED), journey.transfer, *dict.fromkeys(shown[:8])))


def _foreign(mine: Attempt, writes: list[Write], writers: dict[tuple[str, str | None], list[Attempt]]) -> Write | None:
    """The first write of a page, where it is known to be of another namespace: whoever came later found it there."""
    moved = [write for write in writes if write.moved]
    by = writers.get((moved[0].engine, moved[0].rid)) if moved else None
    return moved[0] if by and _differ(mine, by[-1]) else None


def _differ(one: Attempt, other: Attempt) -> bool:
    """Whether two requests are known to have different extra keys: numbers are of one process, that there is none is the same everywhere."""
    first, second = one.first(v.REQUEST_QUEUED), other.first(v.REQUEST_QUEUED)
    if first is None or second is None:
        return False
    mine, theirs = _number(one), _number(other)
    if one.engine is other.engine and mine is not None and theirs is not None:
        return mine != theirs
    return flag(first, v.EXTRA_KEY) != flag(second, v.EXTRA_KEY)


def _number(of: Attempt) -> int | None:
    return number(of.first(v.REQUEST_QUEUED), v.NAMESPACE)


RULE = Rule("shared namespaces", ("K12",), (v.REQUEST_QUEUED, v.PREFETCH_TRANSFER, v.STORE_GET, v.STORE_PUT), of_world=judge)
