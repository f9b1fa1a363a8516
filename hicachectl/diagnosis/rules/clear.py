"""A clear that left leased objects and was answered with success: E08."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import number
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Objects removed against objects that the master still counts, or that this recording has put and not removed."""
    for engine in world.engines.values():
        for clear in engine.all(v.STORAGE_CLEAR):
            remove = next((span for span in engine.all(v.STORE_REMOVE) if span.parent_id == clear.span_id), None)
            removed = number(remove, v.CODE)
            before, sampled = _before(world, clear)
            if removed is not None and before is not None and 0 <= removed < before:
                args: dict[str, object] = {"removed": removed, "before": before, "left": before - removed}
                yield of_engine(engine, "E08", args=args, evidence=(clear, remove), certain=sampled)


def _before(world: World, clear: Span) -> tuple[int | None, bool]:
    samples = [span for span in world.samples if span.end_ns <= clear.start_ns]
    if samples:
        return number(samples[-1], v.SAMPLE_KEYS), True
    since = max((time for time in world.pages.clears if time < clear.start_ns), default=0)
    objects = {
        (key, suffix)
        for key, writes in world.pages.all()
        for write in writes
        if since < write.time_ns <= clear.start_ns
        for suffix in write.suffixes
    }
    return (len(objects) or None), False


RULE = Rule("clear left objects", ("E08",), (v.STORAGE_CLEAR, v.STORE_REMOVE, v.STORE_SAMPLE, v.STORE_PUT), of_world=judge)
