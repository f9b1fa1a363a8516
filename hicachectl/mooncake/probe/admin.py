"""Where the master's admin port is, and at what fullness the master begins to evict."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from hicachectl.exits import OperatorError, UnreachableError
from hicachectl.mooncake import master

_WATERMARK = re.compile(r"^--?eviction_high_watermark_ratio(?:=(?P<value>.+))?$")
T = TypeVar("T")

_LISTEN = "0A"
ASK_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin port's URL, how it was found, and the watermark where the master's own command line tells it."""

    url: str
    found: str
    watermark: float | None = None


def locate(address: str, configured_port: int | None) -> Admin | None:
    """The admin port that belongs to the master at ADDRESS, None where nothing tells (a high-availability address names no host).

    A port that somebody configured is believed. Else a master on this machine is asked for the ports it listens on, because the port
    that SGLang assumes may be another master's; only then is that default taken.
    """
    if "://" in address:
        return None
    process = _listener(address)
    watermark = _watermark(process) if process is not None else None
    if configured_port is not None:
        return Admin(master.base_url(address, configured_port), "configured", watermark)
    if process is not None:
        for port in _ports_of(process):
            url = master.base_url(address, port)
            if _is_admin(url):
                return Admin(url, "the master's process on this machine", watermark)
    return Admin(master.base_url(address), "SGLang's default port", watermark)


def _is_admin(url: str) -> bool:
    try:
        master.health(url, ASK_TIMEOUT_S)
    except OperatorError:
        return False
    return True


def _listener(address: str) -> int | None:
    """The process of this machine that listens at ADDRESS, where it can be seen."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or not port or not _is_here(host):
        return None
    return next((process for inode, at in _listening() if at == port and (process := _owner(inode)) is not None), None)


def _is_here(host: str) -> bool:
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


def _ports_of(process: int) -> list[int]:
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


def _watermark(process: int) -> float | None:
    """The ratio on the master's command line, in either of the two spellings that gflags takes."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if match := _WATERMARK.match(word):
            try:
                return float(match["value"] or after)
            except ValueError:
                return None
    return None


@dataclass(slots=True)
class Watch:
    """The master's admin port as the probe looks at it; `problem` says why it does not answer."""

    admin: Admin | None
    timeout: float = master.DEFAULT_TIMEOUT_S
    problem: str = ""
    deaf: bool = False
    """The port did not answer: it is not asked again until somebody says so, because each silence costs the whole time-out."""

    def sample(self) -> dict[str, int | float] | None:
        """Gauges and counters; None where they cannot be had."""
        return self._asked(lambda url: master.sample(url, self.timeout))

    def metrics(self) -> dict[str, int | float] | None:
        """Every metric; None where they cannot be had."""
        return self._asked(lambda url: master.metrics(url, self.timeout))

    def health(self) -> master.Health | None:
        """The master's health; None where it cannot be had."""
        return self._asked(lambda url: master.health(url, self.timeout))

    def segments(self) -> list[str]:
        """The mounted segments; none where they cannot be had."""
        return self._asked(lambda url: master.segments(url, self.timeout)) or []

    def endpoint(self, own_key: str) -> str:
        """Where the copy of an own key lies, empty where nobody tells. Leases that key alone."""
        copies = self._asked(lambda url: master.query_key(url, own_key, self.timeout))
        return copies[0].endpoint if copies else ""

    def answers_as_admin(self, address: str) -> bool:
        """Whether what listens at ADDRESS is the admin side of a master, and not the RPC side."""
        return "://" not in address and _is_admin(f"http://{address}")

    def _asked(self, question: Callable[[str], T]) -> T | None:
        if self.admin is None:
            self.problem = "no admin port is known for this master's address"
            return None
        if self.deaf:
            return None
        try:
            return question(self.admin.url)
        except OperatorError as error:
            self.problem = str(error)
            self.deaf = isinstance(error, UnreachableError)
            return None
