"""A ClickHouse server, over its HTTP interface."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from hicachectl.exits import UnreachableError, UsageError, one_line
from hicachectl.store.columns.database import TABLE, Database, is_name

if TYPE_CHECKING:
    import httpx

SCHEME = "clickhouse"
TIMEOUT_S = 10.0
"""For the connection. An answer may take long: between two parts of it ten minutes may pass."""
ANSWER_S = 600.0
PORTS = {False: 8123, True: 8443}
_EXPECTED = "expected clickhouse://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?secure=1&table=NAME]"
_CODE = re.compile(rb"Code: (\d+)")
_MEANINGS = {
    "60": "has no such table: does the Collector's exporter write there, and under which `traces_table_name`?",
    "81": "has no such database",
    "516": "refuses the user: set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD, or name them in the URL",
    "497": "does not let this user read the table",
    "164": "lets this user only read",
}
"""Numbers of ClickHouse's own errors (`src/Common/ErrorCodes.cpp`) -> what to say of them."""


class Server(Database):
    """A database of a server."""

    def __init__(self, client: "httpx.Client", name: str, database: str, table: str) -> None:
        super().__init__(name, table)
        self._client, self._database = client, database

    def lines(self, sql: str) -> Iterator[bytes]:
        """Lines of the answer as the server sends them."""
        rest = b""
        with self._sent(sql.encode()) as answer:
            for part in answer.iter_bytes():
                *whole, rest = (rest + part).split(b"\n")
                yield from (line for line in whole if line)
        if rest:
            yield rest

    def run(self, sql: str) -> None:
        """Carry SQL out."""
        with self._sent(sql.encode()):
            pass

    def insert(self, rows: Iterable[bytes]) -> None:
        """Send ROWS as one request: the server makes one block of them."""
        with self._sent(b"\n".join(rows), query=f"INSERT INTO `{self.table}` FORMAT JSONEachRow"):
            pass

    @contextmanager
    def _sent(self, body: bytes, **parameters: str) -> Iterator["httpx.Response"]:
        import httpx  # noqa: PLC0415 - slow to import, and of no use to a file

        try:
            with self._client.stream("POST", "/", params={"database": self._database, **parameters}, content=body) as answer:
                if not answer.is_success:
                    raise self._refused(answer.read(), answer.status_code)
                yield answer
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise UnreachableError(f"cannot reach {self.name}: {one_line(str(error)) or type(error).__name__}") from error

    def _refused(self, said: bytes, status: int) -> UnreachableError:
        code = _CODE.search(said)
        meaning = _MEANINGS.get(code[1].decode()) if code else None
        return UnreachableError(f"{self.name} {meaning or f'answers HTTP {status}'}: {one_line(said[:300].decode(errors='replace'))}")


@contextmanager
def opened(url: str) -> Iterator[Server]:
    """The database at URL; UsageError where it is no such URL."""
    import httpx  # noqa: PLC0415

    parts = _parts(url)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    secure = options.pop("secure", "0").lower() in ("1", "true", "yes")
    table = options.pop("table", TABLE)
    database = parts.path.strip("/") or "default"
    if options or not is_name(table) or not is_name(database):
        raise UsageError(f"{_shown(parts, database)}: {_EXPECTED}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    base = f"{'https' if secure else 'http'}://{host}:{parts.port or PORTS[secure]}"
    user = unquote(parts.username or "") or os.environ.get("CLICKHOUSE_USER", "default")
    password = unquote(parts.password or "") or os.environ.get("CLICKHOUSE_PASSWORD", "")
    headers = {"X-ClickHouse-User": user, **({"X-ClickHouse-Key": password} if password else {})}
    with httpx.Client(base_url=base, headers=headers, timeout=httpx.Timeout(ANSWER_S, connect=TIMEOUT_S)) as client:
        yield Server(client, _shown(parts, database), database, table)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme == SCHEME and parts.hostname and (parts.port or True)
    except ValueError:
        good = None
    if not good:
        raise UsageError(f"this names no column store: {_EXPECTED}, or chdb:FOLDER")
    return parts


def _shown(parts: SplitResult, database: str) -> str:
    """The URL without user and password."""
    return f"{SCHEME}://{parts.netloc.rpartition('@')[2]}/{database}"
