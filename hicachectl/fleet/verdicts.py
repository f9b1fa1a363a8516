"""The verdict on every request of a column store, a few thousand at a time: as exact as `explain`, in bounded memory."""

from collections.abc import Iterator
from itertools import islice
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
AT_ONCE = 2000
"""Requests that are judged together; some 25 spans each."""


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


class _Request(msgspec.Struct, array_like=True):
    rid: str
    traces: list[str]


class _Number(msgspec.Struct, array_like=True):
    number: int


class Lost(NamedTuple):
    """One request with its token account and its losses."""

    journey: Journey
    account: Account
    lost: list[Finding]


def verdicts(database: Database, known: Processes) -> Iterator[Lost]:
    """Every request's token account and losses, in the order in which requests came.

    A verdict rests on the spans of the request, on those of its process, and on who wrote its pages or the same tokens under other keys:
    these are read for each part, wherever and whenever they were written. What a request costs others is not asked here.
    """
    alike = keys_alike(database, known)
    requests = iter(list(database.ask(PACKAGE, "queued", _Request, names=ASKED)))
    while part := list(islice(requests, AT_ONCE)):
        traces = sorted({trace for each in part for trace in (*each.traces, derived(each.rid))})
        seen = world(recording(database, known, for_losses(database, traces, known, NEEDED, twins=not alike)))
        rids = {each.rid for each in part}
        yield from (Lost(journey, *losses(journey, seen)) for journey in seen.journeys if journey.attempt.rid in rids)


def keys_alike(database: Database, known: Processes) -> bool:
    """Whether the same tokens have the same object keys everywhere: then nothing can have been written under another."""
    first_ranks = [engine for engine in processes(database, known).values() if engine.scheduler and engine.tp_rank == engine.pp_rank == 0]
    schemes = {scheme for engine in first_ranks for scheme in _schemes(engine)}
    salted = next(iter(database.ask(PACKAGE, "salted", _Number)), None)
    return len(schemes) <= 1 and (salted is None or not salted.number)


def processes(database: Database, known: Processes) -> dict[str, Engine]:
    """Every process, by its own spans."""
    return engines(recording(database, known))


def _schemes(engine: Engine) -> Iterator[tuple[str, ...]]:
    """What makes object keys differ, with its value, for each store client that the process has had."""
    for at_ns in [span.start_ns for span in engine.all(v.BACKEND_OPEN)] or [0]:
        asked = Attempt("", 0, engine, [Span(v.REQUEST_QUEUED, "", "", start_ns=at_ns)])
        yield tuple(str(value(asked)) for _, _, value in DIFFERENCES)
