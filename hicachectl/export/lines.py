"""The export requests of a recording as they were written, and its ledgers: lines of OTLP/JSON."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from hicachectl.store.requests import decoded


def requests(runs: Iterable[Path | str]) -> Iterator[tuple[bytes, int]]:
    """Every line of `decoded` with the number of recorded spans in it: 0 for a ledger."""
    for each in decoded(runs):
        yield each.line, 0 if each.ledger else len(each.spans)
