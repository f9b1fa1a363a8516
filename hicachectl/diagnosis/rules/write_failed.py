"""A put failed and ended its operation: W13 with the code, and A10 where the store had no space."""

from collections import Counter
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
    """All operations of this request on the first rank where a put failed: a prompt is written chunk by chunk, and each chunk may fail by itself."""
    for rank in case.journey.ranks:
        operations = rank.all(v.WRITE_STORE)
        failed = [(span, put) for span in operations if _short(span, case.journey.page) and (put := _failed_put(rank, span)) is not None]
        if failed:
            yield _told(case, rank, sum(count(span, v.PAGES) for span in operations), failed)
            return


def _short(operation: Span, page: int) -> bool:
    return count(operation, v.WRITTEN_TOKENS) // page < count(operation, v.PAGES)


def _told(case: Case, rank: Attempt, pages: int, failed: list[tuple[Span, Span]]) -> Finding:
    """The first code, and what all the FAILED operations left unwritten of PAGES."""
    first = failed[0][1]
    code = number(first, v.FIRST_BAD_CODE)
    row = store(code) if code is not None else None
    codes: Counter[str] = Counter()
    for _, put in failed:
        codes.update({str(key): value for key, value in batch(put).codes.items()})
    lost = (_lost(rank, span, count(span, v.PAGES) - count(span, v.WRITTEN_TOKENS) // case.journey.page) for span, _ in failed)
    args: dict[str, object] = {
        "code": code,
        "name": row.name if row else "UNKNOWN",
        "pages": pages,
        "pages_lost": sum(lost),
        "key": batch(first).first_bad_key,
        "rank": rank.engine.rank,
        "codes": dict(codes),
    }
    missing = frozenset(page.page_key for _, put in failed for page in batch(put).pages if page.bad)
    evidence = [each for span, put in failed for each in (put, span)]
    # Who asks before the last of them has failed may miss a page that was still to be written.
    return of_request(case.journey, "W13", args=args, evidence=evidence, unwritten=missing, time_ns=failed[-1][1].start_ns)


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
