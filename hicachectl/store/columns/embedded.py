"""ClickHouse's engine inside this process: chDB, over a folder of its own."""

import importlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hicachectl.exits import UnreachableError, one_line
from hicachectl.store.columns.database import Database, Sql

MARK = "hicachectl-columns"
"""File that tells a folder of columns from any other."""

ROWS_AT_ONCE = 4096
"""Rows that the engine holds of each step: a row may have kilobytes of page keys, and the engine's own 65,409 of them would be gigabytes."""


class Embedded(Database):
    """The tables in a folder."""

    whole = Sql("SETTINGS optimize_functions_to_subcolumns = 0")
    """Where a key of a map is read as a column of its own, expressions do not look like those of our index and our projections any more."""

    def __init__(self, session: Any, folder: Path, name: str) -> None:
        super().__init__(name)
        self._session, self._folder = session, folder

    def lines(self, sql: str) -> Iterator[bytes]:
        """Lines of the answer, a block of rows at a time."""
        rest = b""
        with self._told(), self._session.send_query(sql, "JSONCompactEachRow") as answer:
            for part in answer:
                *whole, rest = (rest + part.bytes()).split(b"\n")
                yield from (line for line in whole if line)
        if rest:
            yield rest

    def run(self, sql: str) -> None:
        """Carry SQL out."""
        with self._told():
            self._session.query(sql)

    def insert(self, rows: Iterable[bytes]) -> None:
        """Add ROWS by way of a file: a statement with the rows in it is held in memory several times over."""
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="rows-", suffix=".jsonl") as file:
            file.writelines(row + b"\n" for row in rows)
            file.flush()
            path = file.name.replace("\\", "\\\\").replace("'", "\\'")
            self.run(f"INSERT INTO `{self.table}` FROM INFILE '{path}' FORMAT JSONEachRow")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise UnreachableError(f"{self.name}: {one_line(str(error).partition('Stack trace')[0][:300])}") from error


def is_folder(folder: Path) -> bool:
    """Whether FOLDER holds tables of ours."""
    return (folder / MARK).is_file()


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Embedded]:
    """The tables in FOLDER, which is made where it is absent; UnreachableError where the package is, or somebody else has it open."""
    try:
        module = importlib.import_module("chdb.session")
    except ImportError as error:
        raise UnreachableError(f"chdb: needs a package that is not here ({error.name}): `pip install 'hicachectl[chdb]'`") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
        session = module.Session(str(folder))
        session.query(f"SET max_block_size = {ROWS_AT_ONCE}")
    except (OSError, RuntimeError) as error:
        raise UnreachableError(f"cannot open {name}: {one_line(str(error)[:300])}") from error
    try:
        yield Embedded(session, folder, name)
    finally:
        with suppress(RuntimeError):
            session.close()
