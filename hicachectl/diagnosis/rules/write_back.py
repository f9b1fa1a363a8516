"""write_back that could not write, so that the device could not be freed: E02, and E04 where the engine says so itself."""

from collections import defaultdict
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.attempt import reason
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, flag
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Evictions that freed less than was asked because a node found no host room."""
    evictions = {span.span_id for engine in world.engines.values() for span in engine.all(v.EVICT_DEVICE)}
    refused: dict[str, list[Span]] = defaultdict(list)
    for span in world.recording.spans if evictions else ():
        if span.name == v.WRITE_BACKUP and span.parent_id in evictions and flag(span, v.WRITE_BACK) and not count(span, v.WRITTEN_TOKENS):
            refused[span.parent_id].append(span)
    for engine in world.engines.values():
        found = [found for span in engine.all(v.EVICT_DEVICE) if (found := _judged(engine, span, refused.get(span.span_id, []))) is not None]
        if found:
            # Every round of a scheduler that is short of room tries again: one finding, the first of them.
            found[0].args["evictions"] = len(found)
            yield found[0]


def _judged(engine: Engine, evict: Span, nodes: list[Span]) -> Finding | None:
    tokens = sum(count(span, v.TOKENS) for span in nodes)
    args: dict[str, object] = {"tokens": tokens or None, "asked": count(evict, v.EVICT_ASKED), "freed": count(evict, v.EVICT_FREED)}
    if reason(evict) == "E04":
        return of_engine(engine, "E04", args=args, evidence=(evict, *nodes[:8]))
    if nodes and reason(evict) is None and count(evict, v.EVICT_FREED) < count(evict, v.EVICT_ASKED):
        return of_engine(engine, "E02", args=args, evidence=(evict, *nodes[:8]))
    return None


RULE = Rule("write_back stuck", ("E02", "E04"), (v.EVICT_DEVICE, v.WRITE_BACKUP), of_world=judge)
