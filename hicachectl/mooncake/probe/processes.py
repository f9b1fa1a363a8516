"""Processes of this machine by the port that they listen at (Linux, proc(5)); other machines' are not seen."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

_LISTEN = "0A"


def listener(address: str) -> int | None:
    """The process of this machine that listens at ADDRESS, where it can be seen."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or not port or not is_here(host):
        return None
    return next((process for inode, at in _listening() if at == port and (process := _owner(inode)) is not None), None)


def is_here(host: str) -> bool:
    """Whether HOST is an address of this machine: only such an address can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(place)
        except OSError:
            continue
        return True
    return False


def _listening() -> Iterator[tuple[str, int]]:
    """(inode, port) of every listening TCP socket (Linux, proc(5): fields 2, 4 and 10)."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                yield fields[9], int(fields[1].rsplit(":", 1)[1], 16)


def _owner(inode: str) -> int | None:
    wanted = f"socket:[{inode}]"
    return next((process for process in _processes() if wanted in _sockets(process)), None)


def ports_of(process: int) -> list[int]:
    """The TCP ports that a process listens at."""
    owned = _sockets(process)
    return sorted({port for inode, port in _listening() if f"socket:[{inode}]" in owned})


def _processes() -> Iterator[int]:
    proc = Path("/proc")
    return (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()) if proc.is_dir() else iter(())


def _sockets(process: int) -> set[str]:
    found = set()
    # Somebody else's process, or one that has just ended, shows nothing.
    with suppress(OSError):
        for entry in Path(f"/proc/{process}/fd").iterdir():
            found.add(str(entry.readlink()))
    return found


def command_of(process: int) -> list[str]:
    """The words of a process's command line; none where it cannot be read."""
    return _fields(process, "cmdline")


def environment_of(process: int) -> dict[str, str]:
    """The environment that a process was started with; empty where it is somebody else's."""
    pairs = (field.partition("=") for field in _fields(process, "environ") if "=" in field)
    return {name: value for name, _, value in pairs}


def interpreter_of(process: int) -> str | None:
    """The program that a process runs, by the name that leads to its packages; None where it cannot be read.

    A virtual environment's Python is a link, and only the link finds the environment: it is looked for where the process itself did.
    """
    try:
        program = Path(f"/proc/{process}/exe").resolve(strict=True)
    except OSError:
        return None
    environment = environment_of(process)
    first = next(iter(command_of(process)), "")
    places = (
        first if Path(first).is_absolute() else shutil.which(first, path=environment.get("PATH")) if first else None,
        f"{environment['VIRTUAL_ENV']}/bin/python" if "VIRTUAL_ENV" in environment else None,
        environment.get("_"),
    )
    links = (place for place in places if place and Path(place).exists() and Path(place).resolve() == program)
    return next(links, str(program))


def _fields(process: int, name: str) -> list[str]:
    try:
        content = Path(f"/proc/{process}/{name}").read_bytes()
    except OSError:
        return []
    return [field for field in content.decode(errors="surrogateescape").split("\0") if field]
