"""Recordings request by request, as a stream: spans, and ledgers as spans, without all of them in memory."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hicachectl.exits import BadInputError, one_line
from hicachectl.store import files, ledger_lines
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.recording import lines
from hicachectl.store.span import Span, Value

log = logging.getLogger(__name__)


class Request(NamedTuple):
    """One export request: the line without its end, its spans, and what is known of the engines so far."""

    line: bytes
    spans: list[Span]
    resources: dict[str, dict[str, Value]]
    ledger: bool = False
    """It repeats a ledger, and was not recorded as a span."""


def warn_of(unreadable: int, run: Path | str) -> None:
    """Say on stderr, or to who listens, how many lines of RUN are left out."""
    if unreadable:
        log.warning("%d lines of %s cannot be read and are left out", unreadable, one_line(str(run)))


def decoded(runs: Iterable[Path | str]) -> Iterator[Request]:
    """Every readable request of RUNS, one at a time; lines that cannot be read are left out, and a warning says how many.

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
        warn_of(bad, run)
        if not isinstance(run, str):
            for line in ledger_lines.lines(run, decoder.resources):
                yield Request(line, decoder.spans(line), decoder.resources, ledger=True)
