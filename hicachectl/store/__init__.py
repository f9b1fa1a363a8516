"""Reads recordings: folder, file or stdin; yields plain spans, and says what is missing from them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_HOLDING = {
    "ledger": ("Ledger", "LedgerPoint"),
    "recording": ("Recording", "read", "uncollected"),
    "shelf": ("Run", "delete", "home", "keep", "list_runs", "named", "newest"),
    "span": ("Link", "Span", "Value"),
    "tail": ("Tail",),
}
"""File -> names of it that others use; a file is imported when one of them is first asked for, so that a command pays for what it does."""


def __getattr__(name: str) -> Any:
    for file, names in _HOLDING.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{file}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
