"""An attach or a detach that stopped half way: A13 where a pool was not registered and storage is on, A14 where a thread did not end."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import failed, flag, strings, text
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
                yield _detached(engine, span)


def _attached(engine: Engine, span: Span) -> Finding:
    """The pool whose registration failed, after the threads had been started (hybrid_cache_controller.py, attach_storage_backend)."""
    pools = [pool for pool in engine.all(v.BUFFER_POOL) if failed(pool) and span.start_ns <= pool.start_ns <= span.end_ns]
    pool = pools[-1] if pools else None
    args: dict[str, object] = {"pool": text(pool, v.POOL) or "not told", "reason": text(span, v.ERROR_TEXT)}
    return of_engine(engine, "A13", args=args, evidence=(span, pool), causal=True, serving=_mended(engine, span))


def _detached(engine: Engine, span: Span) -> Finding:
    args: dict[str, object] = {
        "thread": ", ".join(strings(span, v.NAMES)) or "not told",
        "seconds": round(span.duration_ns / 1e9),
        "reason": text(span, v.ERROR_TEXT),
    }
    return of_engine(engine, "A14", args=args, evidence=(span,), causal=True, serving=_mended(engine, span))


def _mended(engine: Engine, span: Span) -> bool:
    """Whether an attach or a detach went through afterwards."""
    return any(each.start_ns >= span.end_ns and not failed(each) for name in (v.BACKEND_ATTACH, v.BACKEND_DETACH) for each in engine.all(name))


RULE = Rule("half way", ("A13", "A14"), (v.BACKEND_ATTACH, v.BACKEND_DETACH, v.BUFFER_POOL, v.ENGINE), of_world=judge)
