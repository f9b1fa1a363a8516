"""Host pages that left the host pool while a copy to the device read from them: E05 with the node, for the copy may have read what came after."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import count, number, numbers
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Host evictions that name a node of a copy, between the start of the copy and its acknowledgement."""
    for engine in world.engines.values():
        evicted: dict[int, list[Span]] = defaultdict(list)
        for span in engine.all(v.EVICT_HOST):
            for node in numbers(span, v.NODES):
                evicted[node].append(span)
        for start in engine.all(v.LOAD_BACK_START) if evicted else ():
            nodes = numbers(start, v.NODES)
            done = _first(engine.of_node(v.LOAD_BACK_DONE, node, start.start_ns) for node in nodes)
            freed = (span for node in nodes for span in evicted.get(node, ()))
            eviction = _first(eviction for eviction in freed if start.start_ns <= eviction.end_ns and (done is None or eviction.start_ns <= done.end_ns))
            if eviction is not None:
                node = next(node for node in numbers(eviction, v.NODES) if node in nodes)
                args: dict[str, object] = {"tokens": count(eviction, v.EVICT_FREED), "node": node, "copy": number(start, v.PRODUCER), "while": "a copy to the device read from it"}
                yield of_engine(engine, "E05", args=args, evidence=(start, eviction, done), certain=done is not None)


def _first(spans: Iterable[Span | None]) -> Span | None:
    """The one that began first."""
    return min((span for span in spans if span is not None), key=lambda span: span.start_ns, default=None)


RULE = Rule("freed under a copy", ("E05",), (v.LOAD_BACK_START, v.LOAD_BACK_DONE, v.EVICT_HOST), of_world=judge)
