"""The owner's side of the keeper: what is started through it ends with this process, however this process ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hicachectl.exits import UnreachableError

SCRIPTS = Path(__file__).parent / "processes"
GRACE_S = 5.0
"""How long processes that a command left behind may take over SIGTERM."""
STOP_S = 15.0
"""How long the keeper may take to stop everything; it gives up by itself before."""


class Keeper:
    """Starts processes that cannot outlive their owner; one scratch folder is theirs and goes with them."""

    def __init__(self, *, with_stdio: bool = False) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="hicachectl-lab-"))
        self._statuses: dict[int, int] = {}
        self._stopped: set[int] = set()
        self._replies: list[dict[str, Any]] = []
        self._pending = b""
        self._channel, theirs = socket.socketpair()
        stdio = None if with_stdio else subprocess.DEVNULL
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(SCRIPTS / "keeper.py"),
                    str(theirs.fileno()),
                    str(os.getpid()),
                    str(self.scratch),
                ],
                stdin=stdio,
                stdout=stdio,
                stderr=stdio,
                pass_fds=[theirs.fileno()],
            )

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        log: Path | None = None,
        service: bool = False,
        terminal: bool = False,
    ) -> int:
        """Start ARGV in a process group of its own and return its pid; OSError with the reason when it cannot be started.

        LOG takes its output and gives it no input, else it has the owner's. A service is stopped last. TERMINAL: the terminal's keys reach it.
        """
        order = {
            "start": list(argv),
            "env": dict(env),
            "log": str(log) if log else None,
            "service": service,
            "terminal": terminal,
        }
        reply = self._ask(order)
        if "failed" in reply:
            raise OSError(reply["failed"])
        return int(reply["started"])

    def exit_code(self, pid: int, timeout: float | None = 0.0) -> int | None:
        """The exit code of PID, -n for signal n; None while it runs or when it was stopped (see `stopped`)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while pid not in self._statuses and pid not in self._stopped:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not self._receive(left) and left == 0.0:
                break
        return self._statuses.get(pid)

    def stopped(self, pid: int) -> bool:
        """Whether PID was suspended since the last time this was asked."""
        if pid in self._stopped:
            self._stopped.discard(pid)
            return True
        return False

    def sweep(self, grace: float = GRACE_S) -> int:
        """Stop everything but the services; the number of processes that did not end by themselves."""
        return int(self._ask({"sweep": grace})["swept"])

    def close(self) -> None:
        """Stop everything and remove the scratch folder; a second call does nothing."""
        self._channel.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)  # the keeper does it, unless it was killed

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        # An interrupt between question and answer would hand this answer to the next question, so it waits until the answer is here.
        with _signals_wait():
            try:
                self._channel.sendall(json.dumps(order).encode() + b"\n")
                while not self._replies:
                    self._receive(None)
            except OSError as error:
                raise UnreachableError(
                    f"the lab's keeper process {self._process.pid} ended ({error}): start the lab again"
                ) from error
            return self._replies.pop(0)

    def _receive(self, timeout: float | None) -> bool:
        """Read what the keeper says for at most TIMEOUT seconds; whether it said anything."""
        self._channel.settimeout(timeout or (None if timeout is None else 0.001))
        try:
            data = self._channel.recv(65536)
        except TimeoutError:
            return False
        if not data:
            raise UnreachableError(
                f"the lab's keeper process {self._process.pid} ended, and everything that it kept with it: start the lab again"
            )
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))
        return True

    def _hear(self, message: dict[str, Any]) -> None:
        if "exited" in message:
            self._statuses[message["exited"]] = message["status"]
        elif "stopped" in message:
            self._stopped.add(message["stopped"])
        else:
            self._statuses.pop(message.get("started", 0), None)  # of an earlier process that had this number
            self._replies.append(message)


@contextmanager
def _signals_wait() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
