"""A side pool that is registered and never written: W14, for the prefix cannot be restored without it."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, strings, text
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v

PARTS = {"mamba": ("temporal", "conv")}
"""Pool -> parts of its object suffixes, where they do not name it (SGLang `mooncake_store.py`, _get_hybrid_page_component_keys)."""


def judge(world: World) -> Iterator[Finding]:
    """Pools beside the KV pool, against the suffixes of all puts of an engine that has written KV pages."""
    for engine in world.engines.values():
        pools = [span for span in engine.all(v.BUFFER_POOL) if text(span, v.POOL) not in (None, "kv")]
        puts = [span for span in world.recording.spans if span.name == v.STORE_PUT and span.engine == engine.id and v.RID in span.attributes] if pools else []
        wrote = [span for span in puts if count(span, v.OBJECTS_OK)]
        for pool in pools:
            if wrote and not any(_of(pool, span) for span in wrote):
                yield _unwritten(world, engine, pool, puts)


def _unwritten(world: World, engine: Engine, pool: Span, puts: list[Span]) -> Finding:
    tried = [span for span in puts if _of(pool, span)]
    gets = [span for span in world.recording.spans if span.name == v.STORE_GET and span.engine == engine.id and _of(pool, span)]
    code = next((value for value in (span.attributes.get(v.FIRST_BAD_CODE) for span in tried) if value is not None), "never put")
    args: dict[str, object] = {"pool": text(pool, v.POOL), "code": code, "kv_puts": len(puts) - len(tried), "gets": len(gets)}
    return of_engine(engine, "W14", args=args, evidence=(pool, *tried[:4], *puts[:4]))


def _of(pool: Span, call: Span) -> bool:
    name = text(pool, v.POOL) or ""
    return any(part in suffix for suffix in strings(call, v.OBJECT_SUFFIXES) for part in PARTS.get(name, (name,)))


RULE = Rule("side pool", ("W14",), (v.BUFFER_POOL, v.STORE_PUT, v.STORE_GET), of_world=judge)
