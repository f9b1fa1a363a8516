"""An attach or a detach that stopped half way: A13 where a pool was not registered and storage is on, A14 where a thread did not end."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.attempt import reason
from hicachectl.model.engine import LOOKUP_THREAD, Engine
from hicachectl.model.take import failed, flag, keys, strings, text
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Each call that failed and left its threads; what a later call put right is a warning."""
    for engine in world.engines.values():
        if failed(engine.last(v.ENGINE)):
            # The whole scheduler ended with it: nothing runs on half way.
            continue
        for span in engine.all(v.BACKEND_ATTACH):
            if failed(span) and flag(span, v.STORAGE_ON):
                yield _attached(engine, span)
        for span in engine.all(v.BACKEND_DETACH):
            if failed(span):
                yield _stopped(world, engine, span)


def _attached(engine: Engine, span: Span) -> Finding:
    """The pool whose registration failed, after the threads had been started (hybrid_cache_controller.py, attach_storage_backend)."""
    pools = [pool for pool in engine.all(v.BUFFER_POOL) if failed(pool) and span.start_ns <= pool.start_ns <= span.end_ns]
    pool = pools[-1] if pools else None
    args: dict[str, object] = {"pool": text(pool, v.POOL) or "not told", "reason": text(span, v.ERROR_TEXT)}
    return of_engine(engine, "A13", args=args, evidence=(span, pool), causal=True, serving=mended(engine, span))


def _stopped(world: World, engine: Engine, span: Span) -> Finding:
    """The threads that did not end, and the requests that queued lookups or writes afterwards for those that did: nobody takes them."""
    names = (v.WRITE_ENQUEUE,) if LOOKUP_THREAD in strings(span, v.NAMES) else (v.WRITE_ENQUEUE, v.PREFETCH_ENQUEUE)
    queued = [each for each in world.recording.spans if each.name in names and each.engine == engine.id and engine.halted(each.start_ns) is span]
    waiting = [each for each in queued if reason(each) is None]
    told = of_engine(engine, "A14", args=stopped(span), evidence=(span, *waiting[:8]), causal=True, serving=mended(engine, span))
    told.rids = list(dict.fromkeys(rid for rid in (text(each, v.RID) for each in waiting) if rid))
    told.unwritten = frozenset(key for each in waiting if each.name == v.WRITE_ENQUEUE for key in keys(each))
    told.time_ns = span.end_ns
    return told


def stopped(span: Span) -> dict[str, object]:
    """What is said of a detach that stopped half way: its threads, how long it took, and the engine's own words."""
    return {"thread": ", ".join(strings(span, v.NAMES)) or "not told", "seconds": round(span.duration_ns / 1e9), "reason": text(span, v.ERROR_TEXT)}


def mended(engine: Engine, span: Span) -> bool:
    """Whether an attach, a detach or a reset went through afterwards: a reset starts the threads anew."""
    again = (v.BACKEND_ATTACH, v.BACKEND_DETACH, v.RESET)
    return any(each.start_ns >= span.end_ns and not failed(each) for name in again for each in engine.all(name))


RULE = Rule("half way", ("A13", "A14"), (v.BACKEND_ATTACH, v.BACKEND_DETACH, v.BUFFER_POOL, v.ENGINE, v.RESET, v.WRITE_ENQUEUE, v.PREFETCH_ENQUEUE), of_world=judge)
