"""A setting that the installed Mooncake does not take: A04, the store is set up without it."""

from collections.abc import Iterator
from itertools import pairwise

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import strings, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """A setup that ended with TypeError, and the next one with fewer settings (SGLang `mooncake_store.py`, MooncakeStore.__init__)."""
    for engine in world.engines.values():
        for refused, again in pairwise(engine.all(v.STORE_SETUP)):
            dropped = [name for name in strings(refused, v.NAMES) if name not in strings(again, v.NAMES)]
            if refused.error and text(refused, v.ERROR) == "TypeError" and dropped:
                args: dict[str, object] = {"dropped": ", ".join(dropped), "mooncake": engine.mooncake}
                yield of_engine(engine, "A04", args=args, evidence=(refused, again))


RULE = Rule("setting dropped", ("A04",), (v.STORE_SETUP,), of_world=judge)
