"""The keeper: starts what it is told to, and ends with everything it started.

Run by path as `keeper.py FD PARENT_PID SCRATCH`; standard library only. FD is a stream socket that carries one JSON document a line:

    in   {"start": [argv...], "env": {...}, "log": PATH or null, "service": bool, "terminal": bool}
    in   {"sweep": SECONDS}        stop every descendant that is not a service; SECONDS of grace before SIGKILL
    out  {"started": PID} or {"failed": TEXT}, {"swept": COUNT}, and unasked {"exited": PID, "status": N}, {"stopped": PID}

The end of the stream, a signal, or another parent than PARENT_PID mean that the owner is gone: the keeper then stops everything, removes
the folder SCRATCH and exits. It is a child subreaper, so a process that left its own parent is still found among its descendants.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NATURAL_END_S = 0.5
"""How long a descendant may take to notice by itself that its parent ended, before it is asked to."""
LAST_GRACE_S = 1.0
GIVE_UP_S = 10.0
"""How long SIGKILL may take to show; a process that the kernel holds must not hold the keeper."""
TICK_S = 0.02

libc = ctypes.CDLL(None, use_errno=True)
started: set[int] = set()
"""What the owner asked for and what still runs; orphans that were taken in are nobody's question."""
services: set[int] = set()


def main() -> NoReturn:
    """Serve the socket until the owner is gone."""
    # The owner may have a thousand files open, and `select` takes no number above 1023.
    channel = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    parent, scratch = int(sys.argv[2]), sys.argv[3]
    os.setpgid(0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    try:
        _serve(channel, wake, parent)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _sweep(None, natural=0.0, grace=LAST_GRACE_S)
        for pid in services:
            _kill(pid, signal.SIGKILL)  # nothing in them outlives the lab, so nothing is saved by asking
        _reap_all()
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(0)


def _end(*_: object) -> NoReturn:
    raise SystemExit


def _serve(channel: socket.socket, wake: socket.socket, parent: int) -> None:
    pending = b""
    while os.getppid() == parent:
        ready, _, _ = select.select([channel, wake], [], [], 1.0)
        if wake in ready:
            wake.recv(4096)
        _reap(channel)
        if channel not in ready:
            continue
        data = channel.recv(65536)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            _obey(channel, json.loads(line))


def _obey(channel: socket.socket, order: dict[str, Any]) -> None:
    if "start" in order:
        _say(channel, _start(order))
    elif "sweep" in order:
        _say(channel, {"swept": _sweep(channel, natural=NATURAL_END_S, grace=order["sweep"])})


def _say(channel: socket.socket | None, message: dict[str, Any]) -> None:
    if channel is None:
        return
    try:
        channel.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        raise SystemExit from None  # the owner is gone


def _start(order: dict[str, Any]) -> dict[str, Any]:
    keeper = os.getpid()

    def before_exec() -> None:
        os.setpgid(0, 0)
        if order["terminal"]:
            _take_terminal()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    log = Path(order["log"]).open("ab") if order["log"] else None  # noqa: SIM115 - handed to the child, closed below
    try:
        child = subprocess.Popen(
            order["start"],
            env=order["env"],
            stdin=subprocess.DEVNULL if log else None,
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            preexec_fn=before_exec,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"failed": getattr(error, "strerror", None) or str(error)}
    finally:
        if log:
            log.close()
    child.returncode = 0  # the exit status is collected by _reap; Popen must not wait for the pid as well
    started.add(child.pid)
    if order["service"]:
        services.add(child.pid)
    return {"started": child.pid}


def _take_terminal() -> None:
    """Make the calling process's group the one that the terminal's keys reach."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def _reap(channel: socket.socket | None) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid not in started:
            continue
        if os.WIFSTOPPED(status):
            _say(channel, {"stopped": pid})
        else:
            started.discard(pid)
            services.discard(pid)
            _say(channel, {"exited": pid, "status": os.waitstatus_to_exitcode(status)})


def _reap_all() -> None:
    deadline = time.monotonic() + LAST_GRACE_S
    while services and time.monotonic() < deadline:
        _reap(None)
        time.sleep(TICK_S)


def _sweep(channel: socket.socket | None, natural: float, grace: float) -> int:
    """Stop all descendants but the services; the number of those that had to be told."""
    start = time.monotonic()
    asked: set[int] = set()
    while True:
        _reap(channel)
        left = _descendants() - services
        waited = time.monotonic() - start
        if not left or waited > natural + grace + GIVE_UP_S:
            return len(asked)
        for pid in left:
            if waited >= natural + grace:
                _kill(pid, signal.SIGKILL)
                asked.add(pid)
            elif waited >= natural and pid not in asked:
                _kill(pid, signal.SIGTERM)
                _kill(pid, signal.SIGCONT)
                asked.add(pid)
        time.sleep(TICK_S)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _descendants() -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)):
            children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    todo = list(children.get(os.getpid(), ()))
    while todo:
        pid = todo.pop()
        found.add(pid)
        todo.extend(children.get(pid, ()))
    return found


def _parent(process: Path) -> int:
    try:
        # The command name stands in parentheses and may hold anything, so count from the last one (proc(5)).
        state, parent, *_ = (process / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if state == b"Z" and int(parent) != os.getpid() else int(parent)


if __name__ == "__main__":
    main()
