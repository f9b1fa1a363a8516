"""What `--from` names: a server's database, or a folder for chDB."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.store import files
from hicachectl.store.columns import embedded, server
from hicachectl.store.columns.database import Database
from hicachectl.store.columns.loading import create, load
from hicachectl.store.requests import decoded

CHDB = "chdb:"


def is_columns(target: str) -> bool:
    """Whether TARGET names a column store."""
    return target.startswith((CHDB, f"{server.SCHEME}:"))


@contextmanager
def opened(source: str, *, make: bool = False) -> Iterator[Database]:
    """The column store that SOURCE names: clickhouse://HOST:PORT/DATABASE, or chdb:FOLDER; MAKE its table where it is absent.

    FOLDER is one that `export --to clickhouse --target chdb:FOLDER` has made, or holds recordings: these are loaded for the time being.
    UsageError where SOURCE is neither, UnreachableError where there is nothing.
    """
    if not source.startswith(CHDB):
        with server.opened(source) as database:
            if make:
                create(database)
            yield database
        return
    if source == CHDB:
        raise UsageError("chdb: names no folder: expected chdb:FOLDER")
    folder = Path(source.removeprefix(CHDB)).expanduser().absolute()
    if make and folder.is_dir() and not embedded.is_folder(folder) and any(folder.iterdir()):
        raise UsageError(f"{folder} is no folder of columns, and not empty")
    if make or embedded.is_folder(folder):
        with embedded.opened(folder, f"{CHDB}{folder}") as database:
            create(database)
            yield database
    else:
        with of_recordings(_recordings(folder), f"{CHDB}{folder}") as database:
            yield database


@contextmanager
def of_recordings(runs: Sequence[Path | str], name: str = "chdb") -> Iterator[Database]:
    """A column store of RUNS in a temporary folder, which goes away again."""
    with tempfile.TemporaryDirectory(prefix="hicachectl-") as place, embedded.opened(Path(place), name) as database:
        create(database)
        load(database, ((span, each.resources.get(span.engine, {})) for each in decoded(runs) for span in each.spans))
        yield database


def _recordings(folder: Path) -> list[Path]:
    """FOLDER itself, or the recordings that are its children."""
    if not folder.is_dir():
        raise UnreachableError(f"nothing at {folder}: `hicachectl export RUN --to clickhouse --target chdb:{folder}` makes a folder of columns")
    if files.is_recording(folder):
        return [folder]
    found = sorted(path for path in folder.iterdir() if path.is_dir() and files.is_recording(path))
    if not found:
        raise UnreachableError(f"{folder} holds neither columns nor recordings")
    return found
