"""Recordings into memory: spans in time order, ledgers, and what is known to be missing."""

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, eq
from pathlib import Path

from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.store import files, ledger
from hicachectl.store.completeness import reasons
from hicachectl.store.ledger import Ledger
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.mapped import LEAST_BYTES, Mapped, mapped_file
from hicachectl.store.shelf import named, newest
from hicachectl.store.span import Span, Value
from tracers import vocabulary as v

_START = attrgetter("start_ns")
_STRIDE = 256
"""In the order of time spans lie all over a file, and each that is looked into brings 64 KiB around it into memory."""


@dataclass(slots=True)
class Told:
    """What is known of one process where not all of its spans were read."""

    spans: int = 0
    names: set[str] = field(default_factory=set)
    uncovered_puts: int = 0
    uncovered_gets: int = 0
    ended_ns: int = 0
    """When its last span ended."""
    failed_writes: int = 0
    """Operations of its backup thread that an exception ended."""
    no_space: int = 0
    """Puts that the store had no space for."""
    freed_nodes: int = 0
    """Evictions from the host that name nodes."""


@dataclass(slots=True)
class Recording:
    """What was read: spans of every process in time order, and how far they can be trusted to be all of them."""

    paths: list[str]
    """Absolute paths of the runs, '-' for stdin."""
    spans: list[Span] = field(default_factory=list)
    resources: dict[str, dict[str, Value]] = field(default_factory=dict)
    """Engine id -> what its resource says."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """Engine id -> its ledger, where one was left."""
    cut_lines: int = 0
    """Last lines that end in the middle: the process was killed while it wrote, or writes still."""
    broken_lines: int = 0
    dropped: int = 0
    """Spans that the processes say they lost."""
    missing: int = 0
    """Spans that the processes say they wrote and that are not here."""
    mapped: list[Mapped] = field(default_factory=list)
    """Files whose spans keep their attributes on disk until they are asked for."""
    lines: list[tuple[int, int]] = field(default_factory=list)
    """Lines of mapped files: number of the file in `mapped`, number of the line in it."""
    incomplete: list[str] = field(default_factory=list)
    """One sentence for each reason why this may not be all that happened."""
    told: dict[str, Told] | None = None
    """Engine id -> what was counted of it where the spans are kept; None where all of them are here."""

    @property
    def have(self) -> Mapping[str, int]:
        """Engine id -> number of its spans that there are, here or where they are kept."""
        if self.told is not None:
            return {engine: told.spans for engine, told in self.told.items()}
        return Counter(map(attrgetter("engine"), self.spans))

    @property
    def ended_ns(self) -> int:
        """When the last span ended, of those that are here or where they are kept; 0 without any."""
        kept = max((told.ended_ns for told in (self.told or {}).values()), default=0)
        return max([kept, *(span.end_ns for span in self.spans)])

    def judge(self) -> None:
        """Compare the ledgers with the spans that there are, and say what is missing."""
        self.dropped = sum(one.dropped for one in self.ledgers.values())
        for sentence, missing in reasons(self.resources, self.ledgers, self.have):
            self.incomplete.append(sentence)
            self.missing += missing

    def walk(self) -> Iterator[Span]:
        """SPANS one after the other; what looking into each took of memory is given back on the way."""
        for start in range(0, len(self.spans), _STRIDE):
            yield from self.spans[start : start + _STRIDE]
            self.release()

    def release(self) -> None:
        """Give back the memory that holds parts of mapped files; they are read again when they are asked for."""
        for each in self.mapped:
            each.release()

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.incomplete


def read(runs: Sequence[str | Path] = (), *, map_from: int = LEAST_BYTES) -> Recording:
    """Read RUNS (folders, files, '-' for stdin; none: the newest recording) as one recording.

    Files of MAP_FROM bytes and more stay on disk. UnreachableError where a run is absent, BadInputError where nothing in a file can be read.
    """
    with uncollected():
        return _Reading(runs or [newest().path], map_from).result()


def lines(source: Path | str) -> Iterator[tuple[bytes, bool]]:
    """Lines of a file or of stdin that are not blank, each with whether it ends in a newline."""
    try:
        stream = sys.stdin.buffer if source == files.STDIN else Path(source).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UnreachableError(f"cannot open {source}: {error.strerror}") from error
    with stream:
        for line in stream:
            if not line.isspace():
                yield line, line.endswith(b"\n")


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the garbage collector off: spans are millions of objects that it would only walk again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Reading:
    """One call of `read`."""

    def __init__(self, runs: Sequence[str | Path], map_from: int) -> None:
        self.map_from = map_from
        self.runs = [run if run == files.STDIN else named(run) for run in runs]
        self.decoder = Decoder()
        self.good_lines = 0
        self.out = Recording(paths=[str(run) for run in self.runs])

    def result(self) -> Recording:
        """Everything, in order."""
        for source in _once(self.runs):
            self._read(source)
        out = self.out
        out.resources = self.decoder.resources
        out.spans.sort(key=_START)
        drop_repeated(out.spans)
        self._ledgers()
        if out.cut_lines and not self.good_lines and not out.ledgers:
            raise _unreadable(", ".join(out.paths))
        out.judge()
        if out.cut_lines:
            out.incomplete.append(f"{out.cut_lines} last lines end in the middle")
        if out.broken_lines:
            out.incomplete.append(f"{out.broken_lines} lines cannot be read")
        return out

    def _read(self, source: Path | str) -> None:
        good = bad = cut = 0
        spans, mapped = self.out.spans, self._mapped(source)
        for line, whole in lines(source) if mapped is None else mapped.lines():
            try:
                found = self.decoder.spans(line)
                if mapped is not None:
                    self._placed(found, mapped)
                spans += found
                good += 1
            except BrokenLineError:
                bad, cut = bad + whole, cut + (not whole)
        self.out.broken_lines += bad
        self.out.cut_lines += cut
        self.good_lines += good
        if not good and (bad or (cut and source in self.runs)):
            raise _unreadable(_shown(source))

    def _mapped(self, source: Path | str) -> Mapped | None:
        mapped = None if isinstance(source, str) else mapped_file(source, self.map_from)
        if mapped is not None:
            self.out.mapped.append(mapped)
        return mapped

    def _placed(self, found: list[Span], mapped: Mapped) -> None:
        number = len(self.out.lines)
        self.out.lines.append((len(self.out.mapped) - 1, len(mapped.places) - 1))
        for span in found:
            span.line = number
        # In the order of time spans lie all over the file: what every span is asked is asked in the order of the file.
        self.decoder.owned(found)

    def _ledgers(self) -> None:
        out = self.out
        for run in self.runs:
            for path in [] if isinstance(run, str) else files.ledger_files(run):
                found = ledger.from_file(path)
                if found is None:
                    out.incomplete.append(f"the ledger {path.name} cannot be read")
                else:
                    out.ledgers[found.engine] = found
        ledgers_of_spans(out)


_TELLING = frozenset({v.LEDGER, v.ENGINE_START, v.ENGINE})


def ledgers_of_spans(out: Recording) -> None:
    """Take the ledger of each process that has none from the spans that repeat it."""
    without = out.resources.keys() - out.ledgers.keys()
    if not without:
        return
    telling = [span for span in out.spans if span.name in _TELLING]
    schedulers = {span.engine for span in telling if span.name != v.LEDGER}
    for span in telling:
        if span.name == v.LEDGER and span.engine in without:
            engine = span.engine
            told = ledger.from_span(span, out.resources[engine], engine in schedulers)
            out.ledgers[engine] = ledger.latest(out.ledgers.get(engine), told)


def _once(runs: Iterable[Path | str]) -> Iterator[Path | str]:
    """Every file of RUNS, once, though a folder and a file in it may both be named."""
    seen: set[Path | str] = set()
    for run in runs:
        for source in [run] if isinstance(run, str) else files.span_files(run):
            key = source if isinstance(source, str) else source.resolve()
            if key not in seen:
                seen.add(key)
                yield source


def drop_repeated(spans: list[Span]) -> None:
    """Drop spans that came twice (a collector's retry); SPANS are sorted by start, so that twins lie close together."""
    twice: list[int] = []
    last, seen = -1, set[str]()
    for index, together in enumerate(map(eq, map(_START, spans), map(_START, islice(spans, 1, None)))):
        if together:
            if index != last:
                seen = {spans[index].span_id}
            last, span_id = index + 1, spans[index + 1].span_id
            if span_id in seen:
                twice.append(last)
            seen.add(span_id)
    for index in reversed(twice):
        del spans[index]


def _unreadable(what: str) -> BadInputError:
    return BadInputError(
        f"nothing in {what} can be read as a recording: expected lines of OTLP/JSON, as `hicachectl trace` writes them"
    )


def _shown(source: Path | str) -> str:
    return "standard input" if source == files.STDIN else str(source)
