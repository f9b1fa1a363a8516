"""A put failed and ended its operation: W13 with the code, and A10 where the store had no space."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import Attempt
from hicachectl.model.objects import batch
from hicachectl.model.take import count, number
from hicachectl.model.world import World
from hicachectl.mooncake.errors import store
from hicachectl.store import Span
from tracers import vocabulary as v

NO_SPACE = -200


def judge(case: Case) -> Iterator[Finding]:
    """The first operation of this request that wrote fewer pages than it had."""
    journey = case.journey
    for rank, span in ((each, span) for each in journey.ranks for span in each.all(v.WRITE_STORE)):
        pages, page = count(span, v.PAGES), journey.page
        done = count(span, v.WRITTEN_TOKENS) // page
        put = _failed_put(rank, span)
        if done >= pages or put is None:
            continue
        call = batch(put)
        code = number(put, v.FIRST_BAD_CODE)
        row = store(code) if code is not None else None
        args: dict[str, object] = {
            "code": code,
            "name": row.name if row else "UNKNOWN",
            "pages": pages,
            "pages_lost": _lost(rank, span, pages - done),
            "key": call.first_bad_key,
            "rank": rank.engine.rank,
            "codes": {str(key): value for key, value in call.codes.items()},
        }
        missing = frozenset(page.page_key for page in call.pages if page.bad)
        yield of_request(journey, "W13", args=args, evidence=(put, span), unwritten=missing, time_ns=put.start_ns)
        return


def _lost(attempt: Attempt, operation: Span, given_up: int) -> int:
    """Pages of the operation of which an object was not put, or not tried: what the engine gives up, less what is there all the same."""
    asked = [batch(call) for call in attempt.inside(operation, v.STORE_EXIST)]
    puts = [batch(call) for call in attempt.inside(operation, v.STORE_PUT)]
    if any(call.cut for call in (*asked, *puts)):
        return given_up
    there = {page.page_key for call in puts for page in call.pages if page.whole} | {page.page_key for call in asked for page in call.pages if page.whole}
    bad = {page.page_key for call in puts for page in call.pages if page.bad}
    return max(count(operation, v.PAGES) - len(there - bad), len(bad))


def _failed_put(attempt: Attempt, operation: Span) -> Span | None:
    return next((put for put in attempt.inside(operation, v.STORE_PUT) if number(put, v.FIRST_BAD) is not None), None)


def segments(world: World) -> Iterator[Finding]:
    """A rank that gives the pool less than was asked, because the size is divided, and a put that failed for space."""
    for engine in world.engines.values():
        config, setup = engine.last(v.BACKEND_CONFIG), engine.last(v.STORE_SETUP)
        asked, given = number(config, v.SEGMENT_SIZE), number(setup, v.SEGMENT_SIZE)
        if not asked or given is None or given >= asked:
            continue
        short = next((put for put in _puts(world, engine.id) if number(put, v.FIRST_BAD_CODE) == NO_SPACE), None)
        if short is not None:
            yield of_engine(engine, "A10", args={"bytes_per_rank": given, "bytes_asked": asked}, evidence=(config, setup, short))


def _puts(world: World, engine: str) -> Iterator[Span]:
    return (span for span in world.recording.walk() if span.name == v.STORE_PUT and span.engine == engine)


RULE = Rule("write failed", ("W13", "A10"), (v.WRITE_STORE, v.STORE_PUT, v.STORE_EXIST, v.BACKEND_CONFIG, v.STORE_SETUP), of_case=judge, needs=(v.WRITE_STORE,), of_world=segments)
