"""A process that looks like an engine with HICACHECTL_ATTACH=1, and a peer of its socket that is no command line of ours."""

import json
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import environment

ENGINE = """
import json, os, sys, threading, time
from tracers.plugin import register
register()
from sglang.srt.managers.scheduler import Scheduler

def run_scheduler_process():
    scheduler = Scheduler()
    held = scheduler.flush_cache
    before()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(eval(line, globals() | {"scheduler": scheduler})), flush=True)

def before(): pass
"""
"""Evaluates a line of Python a time; `scheduler` stands in the frame that the tracers look for."""


class Process:
    """A stand-in engine under way."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self.pid = process.pid
        self.folder = folder

    def does(self, expression: str) -> Any:
        """The value of EXPRESSION in the engine's main thread."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the engine has ended"
        return json.loads(line)

    def flushes(self, times: int) -> float:
        """Let the scheduler work; seconds that it took."""
        began = time.monotonic()
        self.does(f"[scheduler.flush_cache() for _ in range({times})] and None")
        return time.monotonic() - began

    def peer(self) -> socket.socket:
        """A connection to its socket."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(20)
        sock.connect(str(self.folder / f"{self.pid}.sock"))
        return sock


def ask(peer: socket.socket, **words: Any) -> dict[str, Any]:
    """What the engine answers."""
    peer.sendall(json.dumps(words).encode() + b"\n")
    return answer(peer)


def answer(peer: socket.socket) -> dict[str, Any]:
    """The next line that the engine says; empty where it hangs up."""
    heard = b""
    while b"\n" not in heard:
        more = peer.recv(4096)
        if not more:
            return {}
        heard += more
    found: dict[str, Any] = json.loads(heard)
    return found


def eventually(test: Any, seconds: float = 20) -> bool:
    """Whether TEST comes true in time."""
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def engine(folder: Path, script: str = "", env: Mapping[str, str] | None = None) -> Iterator[Process]:
    """A stand-in engine that runs SCRIPT before it serves."""
    sockets = folder / "sockets"
    told = {"HICACHECTL_ATTACH": "1", "HICACHECTL_ATTACH_DIR": str(sockets), **(env or {})}
    text = ENGINE + textwrap.dedent(script) + "\nrun_scheduler_process()\n"
    path = folder / f"engine-{time.monotonic_ns()}.py"
    path.write_text(text)
    with subprocess.Popen([sys.executable, str(path)], env=environment(folder, told), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield Process(process, sockets)
        finally:
            process.kill()
