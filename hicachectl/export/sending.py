"""Where an export goes: standard output, a file that appears whole, or a collector."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hicachectl import store
from hicachectl.exits import UnreachableError, UsageError
from hicachectl.export import lines, otlp, perfetto
from hicachectl.store import columns
from hicachectl.store.columns.loading import load
from hicachectl.store.requests import decoded, warn_of
from hicachectl.views.machine import ascii_json


def otlp_lines(runs: Sequence[Path | str], out: BinaryIO) -> int:
    """Write the requests of RUNS to OUT, a line each; the number of spans."""
    total = 0
    for line, count in lines.requests(runs):
        out.write(line + b"\n")
        total += count
    return total


def to_collector(runs: Sequence[Path | str], target: str) -> tuple[int, int]:
    """Send the requests of RUNS to the collector at TARGET: (spans sent, spans that it refused)."""
    sent = refused = 0
    with otlp.collector(target) as send:
        for line, count in lines.requests(runs):
            refused += send(line)
            sent += count
    return sent, refused


def to_columns(runs: Sequence[Path | str], target: str | None) -> int:
    """Add the spans of RUNS and their ledgers to the column store TARGET, whose table is made where it is absent; the number of recorded spans."""
    if target is None or not columns.is_columns(target):
        raise UsageError("--to clickhouse needs --target clickhouse://HOST:8123/DATABASE or --target chdb:FOLDER")
    ledgers = 0

    def spans() -> Iterator[tuple[store.Span, dict[str, store.Value]]]:
        nonlocal ledgers
        for each in decoded(runs):
            ledgers += each.ledger
            yield from ((span, each.resources.get(span.engine, {})) for span in each.spans)

    with columns.opened(target, make=True) as database:
        return load(database, spans()) - ledgers


def trace_events(runs: Sequence[Path | str], out: BinaryIO) -> int:
    """Write RUNS to OUT as one document of trace events, an event a line; the number of spans."""
    recording = store.read(runs)
    warn_of(recording.broken_lines + recording.cut_lines, ", ".join(recording.paths))
    out.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
    out.writelines(_separated(ascii_json(event) for event in perfetto.events(recording)))
    out.write(b"\n]}\n")
    return len(recording.spans)


@contextmanager
def written(target: str | None) -> Iterator[BinaryIO]:
    """Standard output, what is no file but can be written to, or the file TARGET, which takes its name only when all of it is there."""
    if target is None or target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    if path.exists() and not path.is_file():
        # A pipe or a device, as /dev/null: a file that took its name would take its place.
        with _into(path) as stream:
            yield stream
        return
    path = path.resolve() if path.is_symlink() else path
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UnreachableError(f"cannot write {target}: {error.strerror}") from error
    try:
        with os.fdopen(number, "wb") as stream:
            yield stream
        Path(name).replace(path)
    except OSError as error:
        raise UnreachableError(f"cannot write {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            Path(name).unlink(missing_ok=True)


@contextmanager
def _into(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("wb") as stream:
            yield stream
    except OSError as error:
        raise UnreachableError(f"cannot write {path}: {error.strerror}") from error


def _separated(parts: Iterable[bytes]) -> Iterator[bytes]:
    before = b""
    for part in parts:
        yield before + part
        before = b",\n"
