"""The verdict on requests of a column store, a few thousand at a time: as exact as `explain`, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from hicachectl.diagnosis.finding import Finding
from hicachectl.diagnosis.rules import LOSSES
from hicachectl.diagnosis.rules.keys import DIFFERENCES
from hicachectl.diagnosis.run import losses
from hicachectl.model.account import Account
from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import Engine
from hicachectl.model.engines import engines
from hicachectl.model.journey import Journey
from hicachectl.model.world import world
from hicachectl.store import Span
from hicachectl.store.columns import Database
from hicachectl.store.columns.around import ASKED, Processes, derived, for_losses, recording
from tracers import vocabulary as v

PACKAGE = "hicachectl.fleet"
AT_ONCE = 6000
"""Requests that are judged together, some 15 spans each; as many as one question can name."""
PAGES_AT_ONCE = 250_000
"""Pages that the prompts of these may have together: each is named in some ten spans."""


NEEDED = tuple(
    sorted(
        {
            *ASKED, v.PREFETCH_ENQUEUE, v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.PREFETCH_FINISH, v.PREFETCH_PUBLISH, v.PREFETCH_POOLS, v.PREFETCH_REVOKE,
            v.PREFETCH_SETTLE, v.PREFETCH_ABORT, v.LOAD_BACK_ASK, v.LOAD_BACK, v.STORE_EXIST, v.STORE_GET, *(name for rule in LOSSES.values() for name in rule.reads),
        }
        - {v.STORE_PUT}
    )
)  # fmt: skip
"""Spans of a request that its account and its losses are read from: those of a journey, and what the rules say that they look at. Puts come by their pages."""


class _Number(msgspec.Struct, array_like=True):
    number: int


@dataclass(slots=True)
class Other:
    """A request of which the rules have to be asked."""

    rid: str
    traces: list[str] = field(default_factory=list)
    """Traces that it has spans in."""
    pages: int = 0


class Lost(NamedTuple):
    """One request with its token account and its losses."""

    journey: Journey
    account: Account
    lost: list[Finding]


def verdicts(database: Database, known: Processes, asked: Iterable[Other], *, alike: bool) -> Iterator[Lost]:
    """Token account and losses of the requests ASKED, in their order, a few thousand at a time.

    ALIKE: nothing can have been written under another key. A verdict rests on the spans of the request, on those of its process, and on who wrote its pages or the same tokens under other keys:
    these are read for each part, wherever and whenever they were written. What a request costs others is not asked here.
    """
    for part in _parts(asked):
        rids = {each.rid for each in part}
        traces = sorted({trace for each in part for trace in (*each.traces, derived(each.rid))})
        seen = world(recording(database, known, for_losses(database, traces, known, NEEDED, twins=not alike)))
        yield from (Lost(journey, *losses(journey, seen)) for journey in seen.journeys if journey.attempt.rid in rids)


def _parts(asked: Iterable[Other]) -> Iterator[list[Other]]:
    part: list[Other] = []
    pages = 0
    for each in asked:
        if part and (len(part) >= AT_ONCE or pages + each.pages > PAGES_AT_ONCE):
            yield part
            part, pages = [], 0
        part.append(each)
        pages += each.pages
    if part:
        yield part


def keys_alike(database: Database, engines: Mapping[str, Engine]) -> bool:
    """Whether the same tokens have the same object keys everywhere: then nothing can have been written under another."""
    first_ranks = [engine for engine in engines.values() if engine.scheduler and engine.tp_rank == engine.pp_rank == 0]
    known = {scheme for engine in first_ranks for scheme in schemes(engine)}
    salted = next(iter(database.ask(PACKAGE, "salted", _Number)), None)
    return len(known) <= 1 and (salted is None or not salted.number)


def processes(database: Database, known: Processes) -> dict[str, Engine]:
    """Every process, by its own spans."""
    return engines(recording(database, known))


def schemes(engine: Engine) -> Iterator[tuple[str, ...]]:
    """What makes object keys differ, with its value, for each store client that the process has had."""
    for at_ns in [span.start_ns for span in engine.all(v.BACKEND_OPEN)] or [0]:
        asked = Attempt("", 0, engine, [Span(v.REQUEST_QUEUED, "", "", start_ns=at_ns)])
        yield tuple(str(value(asked)) for _, _, value in DIFFERENCES)
