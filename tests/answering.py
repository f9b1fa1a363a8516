"""HTTP servers on loopback that answer with given bytes, for what a real master never says."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress


@contextmanager
def server(
    answers: Mapping[str, tuple[int, bytes]], default: tuple[int, bytes] = (404, b"404 Not Found")
) -> Iterator[str]:
    """A server whose paths answer with (status, body); yields its base URL."""
    with _listening(lambda connection: _answer(connection, answers, default)) as url:
        yield url


@contextmanager
def raw(payload: bytes, *, forever: bool = False) -> Iterator[str]:
    """A server that sends PAYLOAD whatever it is asked, over and over where FOREVER; yields its base URL."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(payload)
        while forever:
            connection.sendall(payload)

    with _listening(handle) as url:
        yield url


@contextmanager
def slow(head: bytes, piece: bytes, seconds: float) -> Iterator[str]:
    """A server that sends HEAD and then a PIECE every so many SECONDS, for ever; yields its base URL."""
    gone = threading.Event()

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)
        while not gone.wait(seconds):
            connection.sendall(piece)

    with _listening(handle) as url:
        try:
            yield url
        finally:
            gone.set()


@contextmanager
def silent() -> Iterator[str]:
    """A server that accepts and never answers; yields its base URL."""
    gone = threading.Event()
    with _listening(lambda _connection: gone.wait(30)) as url:
        try:
            yield url
        finally:
            gone.set()


@contextmanager
def _listening(handle) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, handle), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _accept(listener: socket.socket, handle) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_one, args=(connection, handle), daemon=True).start()


def _one(connection: socket.socket, handle) -> None:
    with connection, suppress(OSError):
        handle(connection)


def _answer(connection: socket.socket, answers: Mapping[str, tuple[int, bytes]], default: tuple[int, bytes]) -> None:
    path = connection.recv(65536).split(b" ")[1].decode().partition("?")[0]
    status, body = answers.get(path, default)
    connection.sendall(
        b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)
    )
