"""A side pool that is registered and never written, or whose write failed and nobody looked: W14, for the prefix cannot be restored without it."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, number, strings, text
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v

PARTS = {"mamba": ("temporal", "conv")}
"""Pool -> parts of its object suffixes, where they do not name it (SGLang `mooncake_store.py`, _get_hybrid_page_component_keys)."""


def judge(world: World) -> Iterator[Finding]:
    """Pools beside the KV pool, against the suffixes of all puts of an engine that has written KV pages."""
    for engine in world.engines.values():
        pools = [span for span in engine.all(v.BUFFER_POOL) if text(span, v.POOL) not in (None, "kv")]
        puts = [span for span in world.recording.spans if span.name == v.STORE_PUT and span.engine == engine.id and v.PAGE_KEYS in span.attributes] if pools else []
        wrote = [span for span in puts if count(span, v.OBJECTS_OK)]
        for pool in pools:
            if wrote and not any(_of(text(pool, v.POOL), span) for span in wrote):
                yield _unwritten(world, engine, pool, puts)


def failed_pools(case: Case) -> Iterator[Finding]:
    """The first operation of this request that wrote fewer pages of a side pool than it had."""
    for rank in case.journey.ranks:
        for operation in rank.all(v.WRITE_STORE):
            for call in rank.inside(operation, v.WRITE_POOLS):
                pool = text(call, v.POOL_SHORT)
                if pool is None or call.error:
                    # An exception ends the operation (W17), or is swallowed with the draft model's pool (W15).
                    continue
                puts = [put for put in rank.inside(operation, v.STORE_PUT) if _of(pool, put)]
                code = _code(puts) or "not told"
                args: dict[str, object] = {"pool": pool, "code": code, "pages": strings(call, v.POOL_PAGES), "rank": rank.engine.rank}
                yield of_request(case.journey, "W14", args=args, evidence=(call, *puts[:4], operation))
                return


def _unwritten(world: World, engine: Engine, pool: Span, puts: list[Span]) -> Finding:
    name = text(pool, v.POOL)
    tried = [span for span in puts if _of(name, span)]
    gets = [span for span in world.recording.spans if span.name == v.STORE_GET and span.engine == engine.id and _of(name, span)]
    args: dict[str, object] = {"pool": name, "code": _code(tried) or "never put", "kv_puts": len(puts) - len(tried), "gets": len(gets)}
    return of_engine(engine, "W14", args=args, evidence=(pool, *tried[:4], *puts[:4]))


def _of(pool: str | None, call: Span) -> bool:
    """Whether objects of this pool are in the call."""
    return any(part in suffix for suffix in strings(call, v.OBJECT_SUFFIXES) for part in PARTS.get(pool or "", (pool or "",)))


def _code(puts: list[Span]) -> int | None:
    """Code of the first object that was not put; the binding has no bad code 0 for a put."""
    return next((code for code in (number(put, v.FIRST_BAD_CODE) for put in puts) if code), None)


RULE = Rule("side pool", ("W14",), (v.BUFFER_POOL, v.STORE_PUT, v.STORE_GET, v.WRITE_STORE, v.WRITE_POOLS), of_case=failed_pools, needs=(v.WRITE_STORE,), of_world=judge)
