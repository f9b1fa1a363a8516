"""Buffers that are not registered with the store: refused, or passed to put and get without a registered range around them (A20)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import NO, Engine
from hicachectl.model.take import count, number, text
from hicachectl.model.world import World
from hicachectl.mooncake.errors import store
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """One finding for each engine: the first refusal, else the buffers that no range covers."""
    for engine in world.engines.values():
        refused = next((span for span in engine.all(v.BUFFER_REGISTER) if number(span, v.CODE) != 0), None)
        if refused is not None:
            yield refusal(engine, refused)
        elif engine.uncovered:
            yield _uncovered(world, engine)


def refusal(engine: Engine, refused: Span) -> Finding:
    """The code, the bytes, and the limit that this process has for locked memory."""
    code, size, limit = number(refused, v.CODE), number(refused, v.BYTES), number(refused, v.MEMLOCK)
    row = store(code) if code is not None else None
    short = limit is not None and size is not None and 0 <= limit < size
    bound = f", and this process may lock {limit} bytes" if short else ""
    pool = next((span for span in reversed(engine.all(v.BUFFER_POOL)) if span.span_id == refused.parent_id), None)
    args: dict[str, object] = {
        "pool": text(pool, v.POOL) or "kv",
        "reason": f"register_buffer returned {code} {row.name if row else 'UNKNOWN'} for {size} bytes{bound}",
        "code": code,
        "bytes": size,
        "limit": limit,
    }
    return of_engine(engine, "A20", args=args, evidence=(refused, pool), causal=engine.backend_state()[0] == NO)


def _uncovered(world: World, engine: Engine) -> Finding:
    calls = [span for span in world.recording.spans if span.engine == engine.id and count(span, v.UNCOVERED)]
    first = calls[0] if calls else None
    address, ranges = number(first, v.FIRST_UNCOVERED), number(first, v.RANGES)
    args: dict[str, object] = {
        "pool": "behind these pointers",
        "reason": f"{engine.uncovered} buffers passed to put and get lie outside the {ranges} registered ranges, the first at {address}",
        "buffers": engine.uncovered,
        "puts": engine.uncovered_puts,
        "gets": engine.uncovered_gets,
        "address": address,
        "ranges": ranges,
        "transport": text(engine.last(v.STORE_SETUP), v.PROTOCOL_IN_USE),
    }
    return of_engine(engine, "A20", args=args, evidence=calls[:8])


RULE = Rule("registration", ("A20",), (v.BUFFER_REGISTER, v.BUFFER_POOL, v.STORE_PUT, v.STORE_GET, v.STORE_SETUP), of_world=judge)
