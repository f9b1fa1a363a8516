"""A reset that dropped prefetches, backups or copies under way: E07."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import count, number, numbers
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Resets with something in flight that nothing ended afterwards: what was done and only not yet acknowledged is not lost."""
    for engine in world.engines.values():
        resets = [span for span in engine.all(v.RESET) if count(span, v.IN_FLIGHT)]
        for span in resets:
            prefetches, backups, loads = _prefetches(world, engine, span), _backups(world, engine, span), _loads(engine, span)
            if prefetches or backups or loads:
                args: dict[str, object] = {"prefetches": len(prefetches), "backups": len(backups), "loads": len(loads)}
                yield of_engine(engine, "E07", args=args, evidence=(span, *prefetches[:8], *backups[:8], *loads[:8]))


def _prefetches(world: World, engine: Engine, reset: Span) -> list[Span]:
    """Accepted before the reset, of requests that had not been prefilled by then."""
    found = []
    for journey in world.journeys:
        asked, prefill = journey.enqueue, journey.attempt.first_prefill
        if journey.attempt.engine is engine and asked is not None and count(asked, v.ACCEPTED_TOKENS) and asked.start_ns < reset.start_ns:
            ended = [span for span in (prefill, journey.finish, journey.revoke) if span is not None and span.start_ns < reset.start_ns]
            if not ended and (journey.hit is None or journey.accepted):
                found.append(asked)
    return found


def _backups(world: World, engine: Engine, reset: Span) -> list[Span]:
    """Operations that were queued for the store and never came to it, and nodes whose copy to the host was never acknowledged."""
    since = max((span.start_ns for span in engine.all(v.RESET) if span.start_ns < reset.start_ns), default=0)
    own = [span for span in world.recording.spans if span.engine == engine.id]
    near = [span for span in own if since <= span.start_ns < reset.start_ns]
    stored = {number(span, v.OPERATION) for span in own if span.name == v.WRITE_STORE}
    copied = {number(span, v.NODE) for span in near if span.name == v.WRITE_HOST_DONE}
    queued = [span for span in near if span.name == v.WRITE_ENQUEUE and number(span, v.OPERATION) not in stored and count(span, v.PAGES)]
    begun = [span for span in near if span.name == v.WRITE_BACKUP and count(span, v.WRITTEN_TOKENS) and number(span, v.NODE) not in copied]
    return queued + begun


def _loads(engine: Engine, reset: Span) -> list[Span]:
    """Copies to the device that had begun, and were not acknowledged: their host pages were freed under them."""
    begun = [span for span in engine.all(v.LOAD_BACK_START) if span.start_ns < reset.start_ns]
    return [span for span in begun[-1:] if not _done(engine, span, reset)]


def _done(engine: Engine, load: Span, reset: Span) -> bool:
    nodes = set(numbers(load, v.NODES))
    return any(load.start_ns <= span.start_ns <= reset.start_ns and nodes & set(numbers(span, v.NODES)) for span in engine.all(v.LOAD_BACK_DONE))


RULE = Rule(
    "flush dropped work",
    ("E07",),
    (v.RESET, v.PREFETCH_ENQUEUE, v.PREFETCH_FINISH, v.WRITE_ENQUEUE, v.WRITE_STORE, v.WRITE_BACKUP, v.WRITE_HOST_DONE, v.LOAD_BACK_START, v.LOAD_BACK_DONE),
    of_world=judge,
)
