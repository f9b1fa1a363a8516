"""Recordings out of a column store: all of it, or what the verdict on some requests needs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hicachectl.exits import UnreachableError
from hicachectl.store import kinds, ledger
from hicachectl.store.columns.database import Database, Sql
from hicachectl.store.columns.rows import Resource, Stored, spans, told
from hicachectl.store.recording import Recording, Told, drop_repeated, ledgers_of_spans, uncollected
from hicachectl.store.span import Span
from tracers import vocabulary as v

PACKAGE = "hicachectl.store.columns"
OURS = Sql("ResourceAttributes[$R_ENGINE] != ''")
"""Spans of hicachectl: others may lie in the same table."""


class _Count(msgspec.Struct, array_like=True):
    engine: str
    name: str
    spans: int
    ended_ns: int
    uncovered: int
    errors: int
    no_space: int
    with_nodes: int


def whole(database: Database) -> Recording:
    """Everything that DATABASE holds, as a recording that the files would give; UnreachableError where it holds nothing of ours."""
    with uncollected():
        found = Recording([database.name], resources=resources(database))
        found.spans = list(chosen(database, "$ours"))
        return finished(found)


def resources(database: Database) -> dict[str, dict[str, Any]]:
    """Engine id -> what its resource says."""
    found: dict[str, dict[str, Any]] = {}
    for each in database.ask(PACKAGE, "resources", Resource):
        found.setdefault(each.engine, {}).update(told(each.attributes, kinds.RESOURCE))
    if not found:
        raise UnreachableError(f"{database.name} holds no span of hicachectl in {database.table}")
    return found


def counted(database: Database) -> dict[str, Told]:
    """Engine id -> what there is of it, counted by the database."""
    found: dict[str, Told] = {}
    for each in database.ask(PACKAGE, "counts", _Count):
        own = found.setdefault(each.engine, Told())
        own.spans += each.spans
        own.names.add(each.name)
        own.ended_ns = max(own.ended_ns, each.ended_ns)
        own.uncovered_puts += each.uncovered if each.name == v.STORE_PUT else 0
        own.uncovered_gets += each.uncovered if each.name == v.STORE_GET else 0
        own.failed_writes += each.errors if each.name == v.WRITE_STORE else 0
        own.no_space += each.no_space if each.name == v.STORE_PUT else 0
        own.freed_nodes += each.with_nodes if each.name == v.EVICT_HOST else 0
    return found


def chosen(database: Database, where: str, **words: Any) -> Iterator[Span]:
    """Spans for which a condition holds; `$ours` in it are those of hicachectl."""
    return spans(database.ask(PACKAGE, "spans", Stored, where=Sql(where), ours=OURS, **words))


def finished(found: Recording) -> Recording:
    """FOUND with its spans in order and once, ledgers taken from them, and what is missing told."""
    found.spans.sort(key=lambda span: (span.start_ns, span.end_ns, span.span_id))
    drop_repeated(found.spans)
    _ledger_files(found)
    ledgers_of_spans(found)
    found.judge()
    return found


def _ledger_files(found: Recording) -> None:
    """Take out the spans that stand for ledger files: no process wrote them, and what a file says counts before what spans say."""
    schedulers = {span.engine for span in found.spans if span.name in (v.ENGINE_START, v.ENGINE)}
    copies = set[str]()
    for span in found.spans:
        if span.name == v.LEDGER:
            read = ledger.from_span(span, found.resources.get(span.engine, {}), span.engine in schedulers)
            if ledger.copy_id(read) == span.span_id:
                copies.add(span.span_id)
                found.ledgers[span.engine] = ledger.latest(found.ledgers.get(span.engine), read)
                if found.told is not None:
                    found.told[span.engine].spans -= 1
    if copies:
        found.spans = [span for span in found.spans if span.span_id not in copies]
