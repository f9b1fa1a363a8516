"""Copies to the host that waited for the next flush of writes when their process ended: W18."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, number
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v

SINCE = (0, 5, 23)
"""From this release on copies are merged and submitted by the next flush (`hybrid_cache_controller.py`, flush_pending_backups)."""


def judge(world: World) -> Iterator[Finding]:
    """Nodes that were given host room and never acknowledged, in a process that has ended in order; a reset drops them by itself (E07)."""
    for engine in world.engines.values():
        if not (_merges(engine) and engine.ledger is not None and engine.ledger.closed):
            continue
        spans = [span for span in world.recording.spans if span.engine == engine.id]
        since = max((span.start_ns for span in engine.all(v.RESET)), default=0)
        done = {number(span, v.NODE) for span in spans if span.name == v.WRITE_HOST_DONE}
        waiting = [span for span in spans if _begun(span, since) and number(span, v.NODE) not in done]
        if waiting:
            args: dict[str, object] = {"tokens": sum(count(span, v.WRITTEN_TOKENS) for span in waiting), "nodes": len(waiting)}
            yield of_engine(engine, "W18", args=args, evidence=(*waiting[:8], engine.last(v.LEDGER)), certain=world.certain(engine))


def _begun(span: Span, since_ns: int) -> bool:
    return span.name == v.WRITE_BACKUP and span.start_ns >= since_ns and bool(count(span, v.WRITTEN_TOKENS))


def _merges(engine: Engine) -> bool:
    parts = (engine.sglang or "").split(".")[:3]
    return all(part.isdigit() for part in parts) and tuple(map(int, parts)) >= SINCE


RULE = Rule("write put off", ("W18",), (v.WRITE_BACKUP, v.WRITE_HOST_DONE, v.RESET, v.LEDGER), of_world=judge)
