"""A reset that dropped prefetches and backups under way: E07."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import count
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Resets with something in flight."""
    for engine in world.engines.values():
        for span in engine.all(v.RESET):
            if count(span, v.IN_FLIGHT):
                args: dict[str, object] = {"prefetches": count(span, v.IN_FLIGHT), "backups": "some of them"}
                yield of_engine(engine, "E07", args=args, evidence=(span,))


RULE = Rule("flush dropped work", ("E07",), (v.RESET,), of_world=judge)
