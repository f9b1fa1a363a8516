"""A prefix tree that has no storage tier, although a backend was asked for: A16."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import failed, text
from hicachectl.model.world import World
from tracers import vocabulary as v

CPP = "RadixCacheCpp"
"""SGLang 0.5.14 `mem_cache/registry.py`, default_radix_cache_factory: the experimental tree comes before any that has storage."""
REFUSAL = "Host cache is not supported yet"
"""What that tree raises where the hierarchical cache is on (`mem_cache/radix_cache_cpp.py`, RadixCacheCpp.__init__)."""


def judge(world: World) -> Iterator[Finding]:
    """The tree that was built, or that refused to be, against the backend that the settings name."""
    for engine in world.engines.values():
        built, asked = engine.last(v.ENGINE), engine.first(v.ENGINE_START)
        backend = text(asked, v.ASKED_BACKEND)
        refused = failed(built) and text(built, v.ERROR_TEXT) == REFUSAL
        if backend is not None and (refused or text(built, v.TREE) == CPP):
            yield of_engine(engine, "A16", args={"backend": backend, "tree": CPP, "started": not refused}, evidence=(built, asked), causal=True)


RULE = Rule("tree without storage", ("A16",), (v.ENGINE, v.ENGINE_START), of_world=judge)
