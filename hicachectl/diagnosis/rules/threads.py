"""A storage thread died of an exception, or caught one: W17 for the backup thread, R16 and R10 for the prefetch threads."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, number, text
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Each thread that ended with an exception, and what waits behind it."""
    for engine in world.engines.values():
        for span in engine.all(v.WRITE_THREAD):
            if span.error:
                queued = max([count(span, v.QUEUE), *(number(each, v.QUEUE) or 0 for each in _queued_after(world, engine, span.end_ns))], default=0)
                args: dict[str, object] = {"exception": text(span, v.ERROR), "queued": queued, "message": text(span, v.ERROR_TEXT)}
                yield of_engine(engine, "W17", args=args, evidence=(span,), causal=True)
        if not any(span.error for span in engine.all(v.WRITE_THREAD)):
            # From 0.5.23 on the thread catches it and lives: the operation alone is lost.
            for span in _failed_writes(world, engine):
                args = {"exception": text(span, v.ERROR), "queued": count(span, v.QUEUE), "message": None}
                yield of_engine(engine, "W17", args=args, evidence=(span,), causal=True)
        for span in engine.all(v.PREFETCH_THREAD):
            if span.error:
                code = "R16" if "aux" in span.thread_name else "R10"
                args = {"exception": text(span, v.ERROR), "message": text(span, v.ERROR_TEXT)}
                yield of_engine(engine, code, args=args, evidence=(span,), causal=True)


def _failed_writes(world: World, engine: Engine) -> Iterator[Span]:
    return (span for span in world.recording.spans if span.name == v.WRITE_STORE and span.engine == engine.id and span.error)


def _queued_after(world: World, engine: Engine, time_ns: int) -> Iterator[Span]:
    for journey in world.journeys:
        if journey.attempt.engine is engine:
            yield from (span for span in journey.attempt.all(v.WRITE_ENQUEUE) if span.start_ns >= time_ns)


RULE = Rule("dead threads", ("W17", "R16", "R10"), (v.WRITE_THREAD, v.PREFETCH_THREAD, v.WRITE_ENQUEUE, v.WRITE_STORE), of_world=judge)
