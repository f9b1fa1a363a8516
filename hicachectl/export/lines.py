"""The export requests of a recording as they were written, and its ledgers: lines of OTLP/JSON."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from hicachectl.exits import BadInputError
from hicachectl.export import ledgers
from hicachectl.store import files
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.recording import lines


def requests(runs: Iterable[Path | str]) -> Iterator[tuple[bytes, int]]:
    """Every readable line of RUNS without its end, with the number of spans in it; lines that cannot be read are left out.

    The lines of a run are followed by its ledgers, a span each that is not counted, so that a reader can tell whether it has all.

    BadInputError where nothing can be read, UnreachableError where a run is absent.
    """
    decoder = Decoder()
    for run in runs:
        good = bad = 0
        for source in [run] if isinstance(run, str) else files.span_files(run):
            for line, _ in lines(source):
                try:
                    count = len(decoder.spans(line))
                except BrokenLineError:
                    bad += 1
                    continue
                good += 1
                yield line.strip(), count
        if bad and not good:
            raise BadInputError(f"nothing in {run} can be read as a recording: expected lines of OTLP/JSON")
        if not isinstance(run, str):
            for line in ledgers.lines(run, decoder.resources):
                yield line, 0
