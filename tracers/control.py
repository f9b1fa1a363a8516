"""The live switch: an owner-only Unix socket through which the tracers are switched on in an engine that runs, and off again.

One thread of ours sleeps until somebody connects, and does the work. A recording lives as long as the connection that asked for
it: whatever becomes of who attached, the engine is left as it was. Peers are this user or root, as the kernel says; a line is
short and has to come soon; connections are few.
"""

import atexit
import contextlib
import errno
import json
import logging
import os
import select
import socket
import stat
import struct
import threading
import time
from collections.abc import Mapping
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracers import settings
from tracers import vocabulary as v

if TYPE_CHECKING:
    from tracers.switch import Tracing

MOST_PEERS = 16
LINE_S = 5.0
"""Seconds that a peer has for its line."""
GRACE_S = 5.0
"""Seconds that a recording of a limited time may last longer, for who attached ends it first."""
PAUSE_S = 0.2
"""Seconds to wait where a connection cannot be taken, as with no file descriptor left."""
MOST_FAULTS = 100
_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of a peer (unix(7), SO_PEERCRED)."""

logger = logging.getLogger("hicachectl.tracers")


class RefusedError(Exception):
    """What was asked cannot be done; one sentence says why."""


class Attaching:
    """Lets this process be attached to, and each process that multiprocessing forks from it."""

    def __init__(self, asked: settings.Settings) -> None:
        self._folder = asked.attach or Path()
        self._switch = Switch(asked.folder)
        self._listener: Listener | None = None
        self._pid = 0
        os.register_at_fork(after_in_child=self._forked)
        # A child of multiprocessing is more than an exec that follows: it listens for itself.
        util.register_after_fork(self, Attaching.listen)

    def listen(self) -> None:
        """Listen in this process; where that cannot be, one line says so and the engine goes on. A second call does nothing."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        try:
            self._listener = Listener(self._folder, self._switch)
            self._listener.start()
        except (OSError, RefusedError) as fault:
            logger.warning("nobody can attach to this process (%s); the engine is not affected", fault)

    def _forked(self) -> None:
        """In a forked child, which may be about to exec: let go of what is the parent's, and make no noise."""
        if self._listener is not None:
            self._listener.let_go()
            self._listener = None
        self._switch.let_go()


class Switch:
    """What may be asked of this process; one recording at a time."""

    def __init__(self, traced: Path | None = None) -> None:
        self._traced = traced
        """Where this process is recorded from its start; then there is nothing to attach to."""
        self.tracing: Tracing | None = None
        self.since: Mapping[str, Any] = {}

    def look(self) -> dict[str, Any]:
        """Who this is, and whether it is being recorded."""
        from tracers.built import find  # noqa: PLC0415 - a process to which nobody attaches pays for nothing

        busy = self.tracing is not None or self._traced is not None
        return {"ok": True, "pid": os.getpid(), "ppid": os.getppid(), "scheduler": find().serves, "on": busy, "why": self._why()}

    def on(self, asked: Mapping[str, Any], peer: int) -> dict[str, Any]:
        """Begin a recording in the folder that PEER names; `RefusedError` where one is on, or nothing can be written there."""
        if self.tracing is not None or self._traced is not None:
            raise RefusedError(self._why())
        folder = Path(str(asked.get("folder", "")))
        if not folder.is_absolute() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise RefusedError(f"process {os.getpid()} cannot write into {folder}")
        told = asked.get("environment")
        named = {str(name): str(value) for name, value in told.items()} if isinstance(told, dict) else {}
        from tracers.switch import Tracing  # noqa: PLC0415 - as above

        self.tracing = Tracing(settings.at_attach(folder, named), late=True)
        self.since = {"pid": peer, "folder": str(folder)}
        return {"ok": True, "engine": self.tracing.spool.engine, "scheduler": self.tracing.ledger.is_scheduler, "blind": self.tracing.blind[:32]}

    def off(self) -> None:
        """End the recording, where there is one."""
        tracing, self.tracing, self.since = self.tracing, None, {}
        if tracing is not None:
            tracing.off()

    def let_go(self) -> None:
        """In a forked child: the recording is the parent's; wrappers that are still on its classes pass through."""
        tracing, self.tracing, self.since = self.tracing, None, {}
        if tracing is not None:
            tracing.recorder.switch(False)
            tracing.installer.off()

    def _why(self) -> str:
        if self._traced is not None:
            return f"process {os.getpid()} is recorded from its start, in {self._traced}"
        if self.tracing is not None:
            return f"process {os.getpid()} is being recorded already, by process {self.since.get('pid')}, in {self.since.get('folder')}"
        return ""


class Peer:
    """One connection."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.sock = sock
        self.pid = pid
        self.heard = b""
        self.due = time.monotonic() + LINE_S

    def tell(self, answer: Mapping[str, Any]) -> bool:
        """Send ANSWER; False for a peer that does not take it at once."""
        line = json.dumps(answer).encode()[: v.ATTACH_LINE] + b"\n"
        try:
            return self.sock.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(line)
        except OSError:
            return False


class Listener:
    """The socket of this process, and the thread that sleeps on it. OSError and `RefusedError` where there can be none."""

    def __init__(self, folder: Path, switch: Switch) -> None:
        self._switch = switch
        self._pid = os.getpid()
        self._name = v.ATTACH_SOCKET.format(pid=self._pid)
        self._peers: dict[int, Peer] = {}
        self._holder: Peer | None = None
        """Who attached: the recording ends with its connection."""
        self._ends = float("inf")
        self._folder = _own_folder(folder)
        try:
            self._socket = _bound(self._folder, self._name)
        except OSError:
            os.close(self._folder)
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def start(self) -> None:
        """Listen, in a thread that keeps nobody from ending."""
        atexit.register(self.close)
        # A worker of multiprocessing that was forked leaves by os._exit, after its own list of things to do.
        util.Finalize(None, self.close, exitpriority=0)
        threading.Thread(target=self._run, name="hicachectl-attach", daemon=True).start()

    def close(self) -> None:
        """Take the socket away, unless this is another process by now."""
        if self._pid == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)

    def let_go(self) -> None:
        """In a forked child: the parent's connections and its socket are not ours; close what was inherited, remove nothing."""
        atexit.unregister(self.close)
        for each in (self._socket, *(peer.sock for peer in self._peers.values())):
            with contextlib.suppress(OSError):
                each.close()
        with contextlib.suppress(OSError):
            os.close(self._folder)

    # -- the thread ------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        faults = 0
        while faults < MOST_FAULTS:
            try:
                self._turn()
            except Exception:  # a peer must not end what others need
                faults += 1
                logger.debug("a peer of the live switch failed", exc_info=True)
                time.sleep(PAUSE_S)
        self.close()

    def _turn(self) -> None:
        for descriptor, _ in self._poll.poll(self._patience()):
            if descriptor == self._socket.fileno():
                self._accept()
            elif descriptor in self._peers:
                self._hear(self._peers[descriptor])
        now = time.monotonic()
        for peer in [peer for peer in self._peers.values() if peer is not self._holder and peer.due <= now]:
            self._drop(peer)
        if now >= self._ends:
            self._end("its time is over")

    def _patience(self) -> int | None:
        """Milliseconds until something is due; None sleeps until somebody comes."""
        due = min([self._ends, *(peer.due for peer in self._peers.values() if peer is not self._holder)])
        return None if due == float("inf") else max(0, int((due - time.monotonic()) * 1000) + 1)

    def _accept(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except OSError as fault:
            if fault.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EINTR):
                time.sleep(PAUSE_S)
            return
        pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid not in (os.geteuid(), 0) or len(self._peers) >= MOST_PEERS:
            sock.close()
            return
        sock.setblocking(False)
        self._peers[sock.fileno()] = Peer(sock, pid)
        self._poll.register(sock, select.POLLIN)

    def _hear(self, peer: Peer) -> None:
        try:
            heard = peer.sock.recv(v.ATTACH_LINE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            heard = b""
        peer.heard += heard
        if not heard or len(peer.heard) > v.ATTACH_LINE:
            self._drop(peer)
            return
        line, found, rest = peer.heard.partition(b"\n")
        if found:
            # A peer asks one thing at a time; what came with it is not waited for.
            peer.heard = b""
            peer.due = time.monotonic() + LINE_S
            if rest or not peer.tell(self._answer(peer, line)):
                self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        self._peers.pop(peer.sock.fileno(), None)
        with contextlib.suppress(OSError, KeyError, ValueError):
            self._poll.unregister(peer.sock)
        peer.sock.close()
        if peer is self._holder:
            self._holder = None
            self._end("")

    def _answer(self, peer: Peer, line: bytes) -> Mapping[str, Any]:
        try:
            asked = json.loads(line)
            does = {v.LOOK: self._look, v.ON: self._on, v.OFF: self._off}.get(str(asked.get("do")) if isinstance(asked, dict) else "")
            if does is not None:
                return does(asked, peer)
        except RefusedError as refusal:
            return {"ok": False, "why": str(refusal)}
        except (ValueError, RecursionError):
            return {"ok": False, "why": "not understood"}
        except Exception as fault:  # the tracers could not begin, and are off again
            logger.warning("the tracers could not be switched on; the engine is not affected", exc_info=True)
            return {"ok": False, "why": f"process {os.getpid()}: {type(fault).__name__}: {fault}"[:200]}
        return {"ok": False, "why": "not understood"}

    def _look(self, _: Mapping[str, Any], __: Peer) -> dict[str, Any]:
        return self._switch.look()

    def _on(self, asked: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
        seconds = asked.get("seconds")
        answer = self._switch.on(asked, peer.pid)
        self._holder = peer
        if isinstance(seconds, (int, float)) and seconds > 0:
            self._ends = time.monotonic() + seconds + GRACE_S
        return answer

    def _off(self, _: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
        was = self._switch.tracing is not None
        if peer is not self._holder:
            self._end(f"process {peer.pid} asked for it")
            return {"ok": True, "was": was}
        self._holder, self._ends = None, float("inf")
        self._switch.off()
        return {"ok": True, "was": was}

    def _end(self, why: str) -> None:
        """End the recording, and tell who attached."""
        holder, self._holder, self._ends = self._holder, None, float("inf")
        self._switch.off()
        if holder is not None:
            holder.tell({"ended": why})
            self._drop(holder)


def _own_folder(path: Path) -> int:
    """A descriptor of a folder that is this user's alone, which is made where there is none; `RefusedError` for any other."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    about = os.fstat(descriptor)
    if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != stat.S_IRWXU:
        os.close(descriptor)
        raise RefusedError(f"{path} is not a folder of this user's alone, with mode 700")
    return descriptor


def _bound(folder: int, name: str) -> socket.socket:
    """A socket that listens under NAME in the folder; it appears there only once it does, and with mode 600."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    new = f".{name}"
    # By way of the descriptor no path is too long, and nobody can put another folder in its place.
    base = f"/proc/self/fd/{folder}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=folder)
        sock.bind(f"{base}/{new}")
        os.chmod(f"{base}/{new}", 0o600)  # noqa: PTH101 - by way of the descriptor
        sock.listen(MOST_PEERS)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        sock.close()
        raise
    return sock
