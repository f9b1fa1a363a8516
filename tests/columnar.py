"""A door for the tests: it speaks as much of ClickHouse's HTTP interface as is asked of it, and chDB answers behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hicachectl.store.columns.database import TABLE, filled, read
from hicachectl.store.columns.reading import PACKAGE

USER, PASSWORD = "reader", "pass/word"


class Door:
    """What the door saw, and how it answers."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.sql: list[str] = []
        self.refuses: tuple[int, str] | None = None
        self.fails_late = False

    def answer(self, database: str, query: str, body: bytes) -> bytes:
        """The answer to a request: a statement in the query takes its rows from the body."""
        self.sql.append(query or body.decode())
        self.session.query(f"USE `{database}`")
        if not query:
            return bytes(self.session.query(body.decode(), "TabSeparated").bytes())
        with NamedTemporaryFile(dir=self.folder, suffix=".jsonl") as file:
            file.write(body)
            file.flush()
            statement, found, form = query.partition(" FORMAT ")
            assert found
            self.session.query(f"{statement} FROM INFILE '{file.name}' FORMAT {form}")
        return b""


def table(there: "Door") -> None:
    """Make the exporter's table behind a door."""
    there.session.query("USE otel")
    there.session.query(filled(read(PACKAGE, "create"), TABLE, {}))


@contextmanager
def door(folder: Path) -> Iterator[tuple[Door, str]]:
    """An open door onto a database `otel` in FOLDER: (the door, host and port)."""
    from chdb.session import Session  # noqa: PLC0415 - absent on some machines

    session = Session(str(folder))
    session.query("CREATE DATABASE IF NOT EXISTS otel")
    found = Door(session, folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = {key: values[-1] for key, values in parse_qs(urlsplit(self.path).query).items()}
            status, said = self.said(asked, b"".join(self.parts()))
            self.send_response(status)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def parts(self) -> Iterator[bytes]:
            """The body, of a length that is told, or in chunks."""
            if self.headers["transfer-encoding"] != "chunked":
                yield self.rfile.read(int(self.headers["content-length"]))
                return
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()

        def said(self, asked: dict[str, str], body: bytes) -> tuple[int, bytes]:
            if found.refuses is not None:
                return found.refuses[0], found.refuses[1].encode()
            if (self.headers["X-ClickHouse-User"], self.headers["X-ClickHouse-Key"]) != (USER, PASSWORD):
                return 403, b"Code: 516. DB::Exception: reader: Authentication failed"
            try:
                answer = found.answer(asked["database"], asked.get("query", ""), body)
            except RuntimeError as error:
                return 404, str(error).encode()
            return 200, answer + (b"Code: 241. DB::Exception: Memory limit exceeded\n" if found.fails_late else b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found, f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        session.close()
