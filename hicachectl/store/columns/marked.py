"""Processes of which one request is not enough: a fault of theirs concerns every request, and its finding counts over all of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hicachectl.store import ledger
from hicachectl.store.columns.around import Processes
from hicachectl.store.columns.database import Database
from hicachectl.store.columns.reading import chosen
from hicachectl.store.ledger import Ledger
from hicachectl.store.recording import Told
from hicachectl.store.span import Span
from tracers import vocabulary as v


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as the signs below look at it."""

    database: Database
    engine: str
    told: Told
    spans: dict[str, list[Span]]
    ledger: Ledger | None

    def has(self, name: str, test: Callable[[dict[str, Any]], bool]) -> bool:
        """Whether one of its spans of this name passes a test of its attributes."""
        return any(test(span.attributes) for span in self.spans.get(name, ()))

    def died(self) -> bool:
        """Whether a storage thread ended with an exception, a write did in one that lives on, or a detach stopped half way."""
        ends = (span for name in (v.WRITE_THREAD, v.PREFETCH_THREAD, v.BACKEND_DETACH) for span in self.spans.get(name, ()))
        return any(span.error for span in ends) or self.told.failed_writes > 0


SIGNS: tuple[tuple[str, Callable[[Process], bool]], ...] = (
    ("a reset with something in flight", lambda one: one.has(v.RESET, lambda told: bool(told.get(v.IN_FLIGHT)))),
    ("a get that had not returned", lambda one: one.ledger is not None and not one.ledger.closed and bool(one.ledger.running)),
    ("buffers that no range covers", lambda one: bool(one.told.uncovered_puts or one.told.uncovered_gets)),
    ("a put without space", lambda one: one.told.no_space > 0),
    ("host pages freed under a copy", lambda one: one.told.freed_nodes > 0),
    ("a storage thread that died", Process.died),
    ("no room for any prefetch", lambda one: one.has(v.BACKEND_ATTACH, lambda told: told.get(v.CAPACITY_LIMIT) == 0)),
    ("a side pool that may never be written", lambda one: one.has(v.BUFFER_POOL, lambda told: told.get(v.POOL) not in (None, "kv"))),
)
"""What is looked for -> in which processes it is so. The findings are A10, A14, A19, A20, E05, E07, R10, R16, R102, W14 and W17."""


def marked(database: Database, known: Processes, engines: Iterable[str]) -> list[str]:
    """Of ENGINES and the other ranks of their servers those that have to be read whole; of all others those of which a storage thread died."""
    found = {each.engine: each for each in _processes(database, known)}
    mine = {engine for engine in found if _server(found[engine]) in {_server(found[own]) for own in engines if own in found}}
    return sorted(engine for engine, each in found.items() if (each.died() if engine not in mine else any(sign(each) for _, sign in SIGNS)))


def spans(database: Database, known: Processes, engines: list[str]) -> Iterator[Span]:
    """Every span of ENGINES; and every write of all where one of them cleared the store and nobody had counted what was in it."""
    if engines:
        yield from chosen(database, "ResourceAttributes[$R_ENGINE] IN $engines", engines=engines)
    first_sample = min((span.end_ns for span in known.samples), default=None)
    clears = [span.start_ns for span in known.spans if span.name == v.STORAGE_CLEAR]
    if clears and (first_sample is None or min(clears) < first_sample):
        yield from chosen(database, "$ours AND SpanName IN $names", names=(v.STORE_PUT, v.STORE_EXIST, v.WRITE_STORE))


def _processes(database: Database, known: Processes) -> Iterator[Process]:
    of: dict[str, dict[str, list[Span]]] = {}
    for span in known.spans:
        of.setdefault(span.engine, {}).setdefault(span.name, []).append(span)
    for engine, resource in known.resources.items():
        own = of.get(engine, {})
        last = max(own.get(v.LEDGER, ()), key=lambda span: span.start_ns, default=None)
        told = ledger.from_span(last, resource, scheduler=True) if last is not None else None
        yield Process(database, engine, known.told.get(engine, Told()), own, told)


def _server(one: Process) -> tuple[object, ...]:
    """Ranks of one server have one parent; a process whose parent is not known is a server of its own."""
    return (one.ledger.host, one.ledger.ppid) if one.ledger is not None and one.ledger.ppid else (one.engine,)
