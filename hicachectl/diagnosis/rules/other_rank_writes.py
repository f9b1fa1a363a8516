"""A rank that does not write, because every rank holds the same KV and rank 0 writes it: W11."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import count, flag
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """A controller that skips backups, and operations that were queued for it all the same."""
    for engine in world.engines.values():
        attach = engine.last(v.BACKEND_ATTACH)
        if not flag(attach, v.BACKUP_SKIP):
            continue
        queued = [span for span in world.recording.spans if span.name == v.WRITE_ENQUEUE and span.engine == engine.id and count(span, v.PAGES)]
        if queued:
            yield of_engine(engine, "W11", args={"rank": engine.tp_rank, "operations": len(queued)}, evidence=(attach, *queued[:4]))


RULE = Rule("another rank writes", ("W11",), (v.BACKEND_ATTACH, v.WRITE_ENQUEUE), of_world=judge)
