"""Copies to the host that waited for the next flush of writes when their process ended: W18."""

from collections import defaultdict
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import count, number
from hicachectl.model.world import World
from hicachectl.release import is_since
from hicachectl.store import Span
from tracers import vocabulary as v

SINCE = "0.5.23"
"""From this release on copies are merged and submitted by the next flush (`hybrid_cache_controller.py`, flush_pending_backups)."""


def judge(world: World) -> Iterator[Finding]:
    """Nodes that were given host room and never acknowledged, in a process that has ended in order; a reset drops them by itself (E07)."""
    ended = {engine.id for engine in world.engines.values() if is_since(engine.sglang, SINCE) and engine.ledger is not None and engine.ledger.closed}
    waiting: dict[str, dict[int | None, Span]] = defaultdict(dict)
    for span in world.recording.spans if ended else ():
        if span.engine not in ended:
            continue
        if span.name == v.WRITE_BACKUP:
            if count(span, v.WRITTEN_TOKENS):
                waiting[span.engine][number(span, v.NODE)] = span
        elif span.name == v.WRITE_HOST_DONE:
            waiting[span.engine].pop(number(span, v.NODE), None)
        elif span.name == v.RESET:
            waiting.pop(span.engine, None)
    for name, nodes in waiting.items():
        if nodes:
            engine = world.engines[name]
            args: dict[str, object] = {"tokens": sum(count(span, v.WRITTEN_TOKENS) for span in nodes.values()), "nodes": len(nodes)}
            yield of_engine(engine, "W18", args=args, evidence=(*list(nodes.values())[:8], engine.last(v.LEDGER)), certain=world.certain(engine))


RULE = Rule("write put off", ("W18",), (v.WRITE_BACKUP, v.WRITE_HOST_DONE, v.RESET, v.LEDGER), of_world=judge)
