"""The export requests of a recording as they were written, and its ledgers: lines of OTLP/JSON."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hicachectl.exits import BadInputError
from hicachectl.export import ledgers
from hicachectl.store import Span, Value, files
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.recording import lines


class Request(NamedTuple):
    """One export request: the line without its end, its spans, and what is known of the engines so far."""

    line: bytes
    spans: list[Span]
    resources: dict[str, dict[str, Value]]
    ledger: bool = False
    """It repeats a ledger, and was not recorded as a span."""


def decoded(runs: Iterable[Path | str]) -> Iterator[Request]:
    """Every readable request of RUNS, one at a time; lines that cannot be read are left out.

    The requests of a run are followed by its ledgers, a span each, so that a reader can tell whether it has all.

    BadInputError where nothing can be read, UnreachableError where a run is absent.
    """
    decoder = Decoder()
    for run in runs:
        good = bad = 0
        for source in [run] if isinstance(run, str) else files.span_files(run):
            for line, _ in lines(source):
                try:
                    spans = decoder.spans(line)
                except BrokenLineError:
                    bad += 1
                    continue
                good += 1
                yield Request(line.strip(), spans, decoder.resources)
        if bad and not good:
            raise BadInputError(f"nothing in {run} can be read as a recording: expected lines of OTLP/JSON")
        if not isinstance(run, str):
            for line in ledgers.lines(run, decoder.resources):
                yield Request(line, decoder.spans(line), decoder.resources, ledger=True)


def requests(runs: Iterable[Path | str]) -> Iterator[tuple[bytes, int]]:
    """Every line of `decoded` with the number of recorded spans in it: 0 for a ledger."""
    for each in decoded(runs):
        yield each.line, 0 if each.ledger else len(each.spans)
