"""Recordings into a column store, a batch at a time."""

from collections.abc import Iterable
from itertools import islice

from hicachectl.store.columns.database import Database, filled, read
from hicachectl.store.columns.reading import PACKAGE
from hicachectl.store.columns.rows import row
from hicachectl.store.span import Span, Value

BATCH = 20_000
"""Rows of one insert: the database makes a part of them, and too many parts slow it down."""


def create(database: Database) -> None:
    """Make the table where it is absent."""
    database.run(filled(read(PACKAGE, "create"), database.table, {}))


def load(database: Database, spans: Iterable[tuple[Span, dict[str, Value]]]) -> int:
    """Add SPANS, each with the resource of its engine; their number."""
    rows = (row(span, resource) for span, resource in spans)
    count = 0
    while batch := list(islice(rows, BATCH)):
        database.insert(batch)
        count += len(batch)
    return count
