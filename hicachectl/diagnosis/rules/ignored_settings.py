"""What the user set in the environment and another source overrides: A02."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import strings, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """One finding for each scheduler that ignores a differing value."""
    for engine in world.engines.values():
        config = engine.last(v.BACKEND_CONFIG)
        ignored = strings(config, v.CONFIG_IGNORED)
        if ignored:
            args: dict[str, object] = {"setting": "; ".join(ignored), "source": text(config, v.CONFIG_SOURCE), "settings": ignored}
            yield of_engine(engine, "A02", args=args, evidence=(config,))


RULE = Rule("ignored settings", ("A02",), (v.BACKEND_CONFIG,), of_world=judge)
