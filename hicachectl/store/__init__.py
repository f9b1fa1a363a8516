"""Reads recordings: folder, file or stdin; yields plain spans, and says what is missing from them."""

from hicachectl.store.ledger import Ledger, LedgerPoint
from hicachectl.store.recording import Recording, read, uncollected
from hicachectl.store.shelf import Run, delete, home, keep, list_runs, named, newest
from hicachectl.store.span import Link, Span, Value
from hicachectl.store.tail import Tail

__all__ = [
    "Ledger",
    "LedgerPoint",
    "Link",
    "Recording",
    "Run",
    "Span",
    "Tail",
    "Value",
    "delete",
    "home",
    "keep",
    "list_runs",
    "named",
    "newest",
    "read",
    "uncollected",
]
