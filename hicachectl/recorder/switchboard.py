"""Processes that let themselves be attached to: which there are, and how to speak with them (`tracers/control.py` is the other side)."""

import json
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.whole import whole
from tracers import vocabulary as v

ALL = "all"
PATIENCE_S = 10.0
"""How long a process may take over an answer: one that is busy in native code without letting go may take a while."""
_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of a peer (unix(7), SO_PEERCRED)."""


class SilentError(UnreachableError):
    """A process that listens does not answer."""


class Line:
    """A connection to one process; a recording that it began ends with it."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self.ended: str | None = None
        """Why the process has hung up, once it has."""
        self._sock = sock
        self._heard = b""

    def fileno(self) -> int:
        """The descriptor, for those who wait for several."""
        return self._sock.fileno()

    def say(self, do: str, **words: Any) -> None:
        """Ask for something; the answer is for `answer`."""
        with suppress(OSError):
            self._sock.sendall(json.dumps({"do": do, **words}).encode() + b"\n")

    def answer(self, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """What the process says to what was asked last; SilentError where nothing comes."""
        end = time.monotonic() + patience_s
        while b"\n" not in self._heard:
            self._sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                heard = self._sock.recv(v.ATTACH_LINE)
            except OSError as error:
                raise SilentError(f"process {self.pid} listens and does not answer: is it stopped, or about to end?") from error
            if not heard or len(self._heard) > v.ATTACH_LINE:
                raise SilentError(f"process {self.pid} has hung up")
            self._heard += heard
        return self._next()

    def listen(self) -> None:
        """Take what the process says by itself, once `select` says that there is something: that the recording has ended."""
        self._sock.settimeout(0)
        try:
            heard = self._sock.recv(v.ATTACH_LINE)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        self._heard += heard
        if b"\n" in self._heard:
            self.ended = str(self._next().get("ended") or "it has ended the recording")
        elif not heard:
            self.ended = "it has ended"

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def _next(self) -> dict[str, Any]:
        line, _, self._heard = self._heard.partition(b"\n")
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise SilentError(f"process {self.pid} answers with what is no answer: is it of another release?")
        return told


@dataclass(slots=True)
class Found:
    """Processes that listen, and sockets of processes that are gone, which have been removed."""

    pids: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)


def read_target(text: str) -> int | None:
    """A process id, or None for `all`; UsageError for anything else."""
    if text == ALL:
        return None
    pid = whole(text)
    if not pid:
        raise UsageError(f"{text} is neither a process id nor '{ALL}'")
    return pid


def folder_of(pid: int | None) -> tuple[Path, int]:
    """(folder of the sockets, uid of its owner): this user's, or that of PID's user; UnreachableError where there is no process PID."""
    uid = os.geteuid()
    if pid is not None:
        try:
            uid = Path(f"/proc/{pid}").stat().st_uid
        except OSError as error:
            raise UnreachableError(f"there is no process {pid}") from error
        if os.geteuid() not in (0, uid):
            raise UnreachableError(f"process {pid} is another user's: only that user and root may attach to it")
    named = os.environ.get(v.ATTACH_FOLDER_VARIABLE)
    return Path(named or v.ATTACH_FOLDER.format(uid=uid)), uid


def find(pid: int | None) -> Found:
    """Processes that listen, all of this user's or PID and its descendants; sockets that nobody listens on are removed."""
    folder, uid = folder_of(pid)
    found = Found()
    with suppress(FileNotFoundError), _opened(folder, uid) as descriptor:
        named = dict(_named(Path(f"/proc/self/fd/{descriptor}")))
        wanted = named.keys() if pid is None else named.keys() & family(pid)
        for each in sorted(named):
            if each not in wanted and not _gone(each):
                continue
            try:
                _connected(descriptor, named[each]).close()
            except ConnectionRefusedError:
                with suppress(OSError):
                    os.unlink(named[each], dir_fd=descriptor)
                found.removed.append(each)
            except OSError:
                # It is there, and takes no connection now: to be told by whoever asks it.
                found.pids.append(each)
            else:
                found.pids.append(each)
    found.pids = [each for each in found.pids if each in wanted]
    return found


def call(pid: int, target: int | None) -> Line:
    """A connection to PID, which `find` has found for TARGET; UnreachableError where there is none, or somebody else has answered."""
    folder, uid = folder_of(target)
    try:
        with _opened(folder, uid) as descriptor:
            sock = _connected(descriptor, v.ATTACH_SOCKET.format(pid=pid))
    except OSError as error:
        raise SilentError(f"process {pid} does not take a connection: {error.strerror or error}") from error
    _, owner, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if owner not in (uid, 0):
        sock.close()
        raise UnreachableError(f"what listens for process {pid} is another user's")
    return Line(pid, sock)


def family(pid: int) -> set[int]:
    """PID and all its descendants that live (proc(5): the parent is the second field behind the name in parentheses)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, waiting = set[int](), [pid]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += children.get(each, ())
    return found


def _named(folder: Path) -> Iterator[tuple[int, str]]:
    """(process id, name) of each socket in FOLDER."""
    for entry in folder.iterdir():
        pid, _, rest = entry.name.partition(".")
        if rest == "sock" and (number := whole(pid)) is not None:
            yield number, entry.name


def _gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def _connected(folder: int, name: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(PATIENCE_S)
        sock.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError:
        sock.close()
        raise
    return sock


@contextmanager
def _opened(folder: Path, uid: int) -> Iterator[int]:
    """A descriptor of the folder of the sockets, which has to be its user's alone; OSError where it cannot be opened."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if about.st_uid != uid or stat.S_IMODE(about.st_mode) != stat.S_IRWXU:
            raise UnreachableError(f"{folder} is not a folder of that user's alone, with mode 700: what is in it cannot be trusted")
        yield descriptor
    finally:
        os.close(descriptor)


def look(pids: list[int], target: int | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """What each of PIDS says of itself; for `all` those that do not answer are left out, else SilentError."""
    for pid in pids:
        try:
            with closing(call(pid, target)) as line:
                line.say(v.LOOK)
                yield pid, line.answer()
        except SilentError:
            if target is not None:
                raise
