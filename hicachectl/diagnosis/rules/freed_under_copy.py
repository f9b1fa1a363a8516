"""Host pages that left the host pool while a copy to the device read from them: E05 with the node, for the copy may have read what came after."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, number, numbers
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Host evictions that name a node of a copy, between the start of the copy and its acknowledgement."""
    for engine in world.engines.values():
        for start in engine.all(v.LOAD_BACK_START):
            done = _done(engine, start)
            freed = [span for span in engine.all(v.EVICT_HOST) if start.start_ns <= span.end_ns and (done is None or span.start_ns <= done.end_ns)]
            hit = [(span, node) for span in freed for node in numbers(span, v.NODES) if node in numbers(start, v.NODES)]
            if hit:
                span, node = hit[0]
                args: dict[str, object] = {"tokens": count(span, v.EVICT_FREED), "node": node, "copy": number(start, v.PRODUCER), "while": "a copy to the device read from it"}
                yield of_engine(engine, "E05", args=args, evidence=(start, span, done), certain=done is not None)


def _done(engine: Engine, start: Span) -> Span | None:
    nodes = set(numbers(start, v.NODES))
    return next((span for span in engine.all(v.LOAD_BACK_DONE) if span.start_ns >= start.start_ns and nodes & set(numbers(span, v.NODES))), None)


RULE = Rule("freed under a copy", ("E05",), (v.LOAD_BACK_START, v.LOAD_BACK_DONE, v.EVICT_HOST), of_world=judge)
