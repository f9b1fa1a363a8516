"""A prefix tree that has no storage tier, although a backend was asked for: A16."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import text
from hicachectl.model.world import World
from tracers import vocabulary as v

CPP = "RadixCacheCpp"
"""SGLang 0.5.14 `mem_cache/registry.py`, default_radix_cache_factory: the experimental tree comes before any that has storage."""


def judge(world: World) -> Iterator[Finding]:
    """The tree that was built, against the backend that the settings name."""
    for engine in world.engines.values():
        built, asked = engine.last(v.ENGINE), engine.first(v.ENGINE_START)
        backend = text(asked, v.ASKED_BACKEND)
        if text(built, v.TREE) == CPP and backend is not None:
            yield of_engine(engine, "A16", args={"backend": backend, "tree": CPP}, evidence=(built, asked), causal=True)


RULE = Rule("tree without storage", ("A16",), (v.ENGINE, v.ENGINE_START), of_world=judge)
