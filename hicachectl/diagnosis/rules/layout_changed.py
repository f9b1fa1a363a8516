"""A host memory layout that was replaced by another, because the backend cannot take it: A15."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import text
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """The layout that the starting process was asked for, against the one that its scheduler has."""
    for engine in world.engines.values():
        begun, built = engine.first(v.ENGINE_START), engine.last(v.ENGINE)
        used = text(begun, v.MEM_LAYOUT)
        asked = _asked(world, engine, begun) if begun is not None else None
        if asked is not None and used is not None and text(asked, v.MEM_LAYOUT_ASKED) != used:
            args: dict[str, object] = {"layout": used, "asked": text(asked, v.MEM_LAYOUT_ASKED), "io_backend": text(begun, v.IO_BACKEND)}
            yield of_engine(engine, "A15", args=args, evidence=(asked, begun, built))


def _asked(world: World, engine: Engine, begun: Span) -> Span | None:
    """The last settings that its parent made to fit before the scheduler began: a parent may start several engines."""
    parents = [each for each in world.engines.values() if (each.host, each.pid) == engine.parent]
    found = [span for each in parents for span in each.all(v.SETTINGS) if span.start_ns <= begun.start_ns]
    return found[-1] if found else None


RULE = Rule("layout changed", ("A15",), (v.SETTINGS, v.ENGINE_START, v.ENGINE), of_world=judge)
