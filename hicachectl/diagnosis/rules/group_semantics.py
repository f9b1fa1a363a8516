"""Group semantics asked of a Mooncake that does not know them: A09."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import flag
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Asked for, and not supported."""
    for engine in world.engines.values():
        span = engine.last(v.BACKEND_OPEN)
        if flag(span, v.GROUP_ASKED) and not flag(span, v.GROUP_SUPPORTED):
            yield of_engine(engine, "A09", args={"mooncake": engine.mooncake}, evidence=(span,))


RULE = Rule("group semantics", ("A09",), (v.BACKEND_OPEN,), of_world=judge)
