"""A rank that does not write, because every rank holds the same KV and rank 0 writes it: W11."""

from collections import defaultdict
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import flag
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """A controller that skips backups, and operations that were queued for it all the same."""
    skipping = {engine.id for engine in world.engines.values() if flag(engine.last(v.BACKEND_ATTACH), v.BACKUP_SKIP)}
    queued: dict[str, list[Span]] = defaultdict(list)
    for span in world.recording.spans if skipping else ():
        if span.name == v.WRITE_ENQUEUE and span.engine in skipping:
            queued[span.engine].append(span)
    for name, spans in queued.items():
        engine = world.engines[name]
        yield of_engine(engine, "W11", args={"rank": engine.tp_rank, "operations": len(spans)}, evidence=(engine.last(v.BACKEND_ATTACH), *spans[:4]))


RULE = Rule("another rank writes", ("W11",), (v.BACKEND_ATTACH, v.WRITE_ENQUEUE), of_world=judge)
