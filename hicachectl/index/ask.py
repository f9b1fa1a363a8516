"""Asks the index of a recording, and makes it where it is worth it and can be made."""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hicachectl
import tracers
from hicachectl.exits import OperatorError
from hicachectl.index.file import BrokenIndexError, Directory, Judged, Line, Named, Place, Reader, Request
from hicachectl.store import Span, files, named, newest
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.mapped import is_at_rest

if TYPE_CHECKING:
    from hicachectl.diagnosis.finding import Finding

NAME = "answers.index"
LEAST_BYTES = 8 << 20
"""A smaller recording is read as fast as its index."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the requests that were asked for."""

    head: dict[str, Any]
    """What `explain` says before the requests, with the recording's own path."""
    attempts: list[Judged]
    findings: "list[Finding]"
    """Those of these requests, and those that concern no single one; none where the spans were wanted."""
    spans: list[Span]
    """Where they were wanted, and all attempts are of one request: the spans around it, in time order."""


class Index:
    """The index of one recording, open."""

    def __init__(self, run: Path, reader: Reader) -> None:
        self._run, self._reader = run, reader

    @property
    def _told(self) -> Directory:
        return self._reader.directory

    def answer(self, request: str, kept: Callable[[Judged], bool], *, spans: bool) -> Answer:
        """What is KEPT of the request REQUEST, or where there is none of those whose id begins with it: with its SPANS, or with the findings."""
        found = [self._request(place) for place in self._places(request)]
        attempts = sorted((self._reader.get(place, Judged) for each in found for place in each.attempts), key=lambda each: each.number)
        attempts = [each for each in attempts if kept(each)]
        attempts = [each for each in attempts if each.shown["rid"] == request] or attempts
        rids = {each.shown["rid"] for each in attempts}
        head = self._reader.get(self._told.head, dict[str, Any]) | {"runs": [str(self._run)]}
        if spans:
            return Answer(head, attempts, [], self._spans(*rids) if len(rids) == 1 else [])
        return Answer(head, attempts, self._findings(found), [])

    def _findings(self, found: Iterable[Request]) -> "list[Finding]":
        """What concerns one of the requests FOUND, or no single one."""
        from hicachectl.diagnosis.finding import Finding  # noqa: PLC0415 - whoever has no index, or wants spans, needs none of this

        numbers = sorted({number for each in found for number in each.findings} | {*self._told.whole})
        return [self._reader.get(self._reader.row(self._told.findings, number, Place), Finding) for number in numbers]

    def _spans(self, rid: str) -> list[Span]:
        """The spans around one request, in time order: from the lines in which they stand."""
        place = next(iter(self._places(rid, exactly=True)), None)
        wanted = self._request(place).spans if place is not None else []
        decoder, found = Decoder(), dict[tuple[int, str], Span]()
        for number in dict.fromkeys(number for number, _ in wanted):
            try:
                for span in decoder.spans(self._line(number)):
                    found.setdefault((number, span.span_id), span)
            except BrokenLineError as error:
                raise BrokenIndexError from error
        try:
            return [found[each] for each in wanted]
        except KeyError as error:
            raise BrokenIndexError from error

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def _request(self, place: Place) -> Request:
        return self._reader.get(place, Request)

    def _places(self, request: str, *, exactly: bool = False) -> Iterator[Place]:
        # The first that is not smaller may be in the leaf that begins before it, or begin the next one.
        leaves = self._told.requests[max(bisect_left(self._told.firsts, request) - 1, 0) :]
        rows = (each for leaf in leaves for each in self._reader.get(leaf, list[Named]))
        alike = takewhile(lambda each: each.rid == request if exactly else each.rid.startswith(request), dropwhile(lambda each: each.rid < request, rows))
        return (each.place for each in alike)

    def _line(self, number: int) -> bytes:
        name, start, end = self._reader.row(self._told.lines, number, Line)
        with (self._run / name).open("rb") as stream:
            stream.seek(start)
            return stream.read(end - start)


def ask(runs: Sequence[str | Path], request: str, kept: Callable[[Judged], bool] = lambda _: True, *, spans: bool = False) -> Answer | None:
    """What the index of the one recording that RUNS names says of REQUEST, as far as it is KEPT: its SPANS, or what was found.

    The index is made where it is absent, stale or broken. None where reading the whole recording is the way: it is small,
    or written to, or there are several, or its folder cannot be written to, or the id is empty, which what serves no request has too.
    """
    if not request:
        return None
    with suppress(OSError, OperatorError):
        run = _indexable(runs)
        if run is not None:
            found = _answered(run, request, kept, spans=spans)
            return _answered(run, request, kept, spans=spans) if found is None and _made(run) else found
    return None


def _answered(run: Path, request: str, kept: Callable[[Judged], bool], *, spans: bool) -> Answer | None:
    index = _opened(run)
    if index is None:
        return None
    try:
        return index.answer(request, kept, spans=spans)
    except BrokenIndexError:
        return None
    finally:
        index.close()


def _indexable(runs: Sequence[str | Path]) -> Path | None:
    """The one folder of RUNS, where it is large and nobody writes to it."""
    if len(runs) > 1 or files.STDIN in runs:
        return None
    run = named(runs[0]) if runs else newest().path
    if not run.is_dir():
        return None
    told = [path.stat() for path in _parts(run)]
    large = sum(each.st_size for each in told) >= LEAST_BYTES
    return run if large and all(is_at_rest(each.st_mtime) for each in told) else None


def _parts(run: Path) -> list[Path]:
    return [*files.span_files(run), *files.ledger_files(run)]


def _opened(run: Path) -> Index | None:
    path = run / NAME
    if not path.is_file():
        return None
    try:
        reader = Reader(path)
    except (OSError, BrokenIndexError):
        return None
    if reader.directory.key == key_of(run):
        return Index(run, reader)
    reader.close()
    return None


def _made(run: Path) -> bool:
    from hicachectl.index.build import build  # noqa: PLC0415 - once for a recording

    return os.access(run, os.W_OK) and build(run, run / NAME, key_of(run))


def key_of(run: Path) -> list[Any]:
    """What the answers rest on: the recording's files as they are, and this program as it is."""
    return [_program(), [_state(path) for path in _parts(run)]]


def _state(path: Path) -> list[Any]:
    told = path.stat()
    return [path.name, told.st_size, told.st_mtime_ns, told.st_ino]


@cache
def _program() -> list[Any]:
    """The version, and the newest file and the size of all: a checkout changes without a new version."""
    told = [path.stat() for path in _sources((hicachectl.__path__, tracers.__path__))]
    return [hicachectl.__version__, len(told), sum(each.st_size for each in told), max(each.st_mtime_ns for each in told)]


def _sources(folders: Iterable[Iterable[str]]) -> Iterator[Path]:
    return (path for each in folders for folder in each for path in Path(folder).rglob("*.py"))
