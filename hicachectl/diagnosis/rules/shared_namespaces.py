"""Objects in the store that requests of different namespaces share: K12, for the page key says nothing of adapter or salt."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.attempt import Attempt
from hicachectl.model.journey import Journey
from hicachectl.model.namespaces import differ, namespace
from hicachectl.model.pages import Write
from hicachectl.model.world import World
from tracers import vocabulary as v

Writers = dict[tuple[str, str | None], list[Attempt]]
"""Engine and request id -> the attempts of that request there."""


def judge(world: World) -> Iterator[Finding]:
    """Pages that one request read, and that a request of another namespace had written under the same key."""
    if not world.salted:
        return
    writers: Writers = defaultdict(list)
    for journey in world.journeys:
        for rank in journey.ranks:
            writers[rank.engine.id, rank.rid].append(rank)
    for journey in world.journeys:
        told = _shared(world, journey, writers)
        journey.forget()
        if told is not None:
            yield told


def _shared(world: World, journey: Journey, writers: Writers) -> Finding | None:
    mine, objects, shown = journey.attempt, 0, []
    others: set[int | None] = set()
    for call in journey.transfer_calls:
        for page in call.pages:
            write = _foreign(mine, world.pages.before(world.pages.of(call.prefix, page.page_key), mine.start_ns), writers) if page.good else None
            if write is not None:
                objects += len(page.good)
                others.add(namespace(writers[write.engine, write.rid][-1]))
                shown.append(write.span_id)
    if not objects:
        return None
    args: dict[str, object] = {"namespaces": 1 + len(others), "objects": objects}
    return of_request(journey, "K12", args=args, evidence=(mine.first(v.REQUEST_QUEUED), journey.transfer, *dict.fromkeys(shown[:8])))


def _foreign(mine: Attempt, writes: Sequence[Write], writers: Writers) -> Write | None:
    """The first write of a page, where it is known to be of another namespace: whoever came later found it there."""
    moved = [write for write in writes if write.moved]
    by = writers.get((moved[0].engine, moved[0].rid)) if moved else None
    return moved[0] if by and differ(mine, by[-1]) else None


RULE = Rule("shared namespaces", ("K12",), (v.REQUEST_QUEUED, v.PREFETCH_TRANSFER, v.STORE_GET, v.STORE_PUT), of_world=judge)
