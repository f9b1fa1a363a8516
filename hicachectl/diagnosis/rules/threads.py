"""A storage thread died of an exception, or caught one: W17 for the backup thread, R16 and R10 for the prefetch threads."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, keys, text
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Each thread that ended with an exception, and what waits behind it."""
    for engine in world.engines.values():
        for span in engine.all(v.WRITE_THREAD):
            if span.error:
                yield _backup(world, engine, span)
        if not any(span.error for span in engine.all(v.WRITE_THREAD)):
            # From 0.5.23 on the thread catches it and lives: the operation alone is lost.
            for span in _of(world, engine, v.WRITE_STORE):
                if span.error:
                    yield _operation(engine, span)
        for span in engine.all(v.PREFETCH_THREAD):
            if span.error:
                yield _prefetch(world, engine, span)


def said(span: Span) -> dict[str, object]:
    """The exception with which a thread ended."""
    return {"exception": text(span, v.ERROR), "message": text(span, v.ERROR_TEXT)}


def _prefetch(world: World, engine: Engine, death: Span) -> Finding:
    """The request whose lookup or transfer the thread died of."""
    code, name = ("R16", v.PREFETCH_TRANSFER) if "aux" in death.thread_name else ("R10", v.PREFETCH_LOOKUP)
    died = [span for span in _of(world, engine, name) if span.error and span.thread_id == death.thread_id][-1:]
    told = of_engine(engine, code, args=said(death), evidence=(death, *died), causal=True)
    told.rids = [rid for rid in (text(span, v.RID) for span in died) if rid]
    return told


def _operation(engine: Engine, failed: Span) -> Finding:
    """One write that an exception ended, in a thread that goes on."""
    told = of_engine(engine, "W17", args={**said(failed), "queued": count(failed, v.QUEUE)}, evidence=(failed,), causal=True)
    told.rids = [rid for rid in (text(failed, v.RID),) if rid]
    told.unwritten, told.time_ns = frozenset(keys(failed)), failed.end_ns
    return told


def _backup(world: World, engine: Engine, death: Span) -> Finding:
    """The operation that it died of, and those that were queued for it and never taken."""
    died = [span for span in _of(world, engine, v.WRITE_STORE) if span.error and span.end_ns <= death.end_ns]
    waiting = [span for span in _of(world, engine, v.WRITE_ENQUEUE) if engine.dead(v.WRITE_THREAD, "backup", span.start_ns) is death]
    queued = max([count(death, v.QUEUE), *(count(span, v.QUEUE) for span in waiting)])
    told = of_engine(engine, "W17", args={**said(death), "queued": queued}, evidence=(death, *died[-1:], *waiting[:8]), causal=True)
    told.rids = list(dict.fromkeys(rid for rid in (text(span, v.RID) for span in (*died[-1:], *waiting)) if rid))
    told.unwritten = frozenset(key for span in (*died[-1:], *waiting) for key in keys(span))
    told.time_ns = death.end_ns
    return told


def _of(world: World, engine: Engine, name: str) -> Iterator[Span]:
    return (span for span in world.recording.spans if span.name == name and span.engine == engine.id)


RULE = Rule("dead threads", ("W17", "R16", "R10"), (v.WRITE_THREAD, v.PREFETCH_THREAD, v.PREFETCH_TRANSFER, v.PREFETCH_LOOKUP, v.WRITE_ENQUEUE, v.WRITE_STORE, v.RESET), of_world=judge)
