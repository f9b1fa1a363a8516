"""Runs a command beside a fresh store; everything that it started is gone when it is."""

import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from types import FrameType

from hicachectl.exits import INTERRUPTED, UnreachableError
from hicachectl.lab import environment, model, store
from hicachectl.lab.keeping import Keeper

TO_GROUP = (signal.SIGINT, signal.SIGQUIT)
TO_LEADER = (signal.SIGTERM, signal.SIGHUP)
"""What reaches the lab alone reaches the command as well: keys all of its group, as a terminal does, the others the command itself."""
PATIENCE_S = 30.0
"""How long the command may take to end after a signal before it is killed; an engine that drains its requests needs seconds."""


def run(argv: Sequence[str], segment: int = store.SEGMENT) -> int:
    """Run ARGV with the lab's environment and a store whose segment has SEGMENT bytes; its exit code, 128+n for signal n, 130 for Ctrl-C.

    Raises UnreachableError where the store or the command cannot be started.
    """
    with closing(Keeper(with_stdio=True)) as keeper:
        running = store.start(keeper, segment)
        folder = keeper.scratch / "model"
        model.write(folder)
        inner = environment.for_command(os.environ, running.environment(), folder)
        code = _run_to_its_end(keeper, argv, inner)
        keeper.sweep()
    return code


def _run_to_its_end(keeper: Keeper, argv: Sequence[str], env: dict[str, str]) -> int:
    received: list[int] = []
    with _terminal_returned() as ours, _passed_on(received) as target:
        try:
            pid = keeper.start(argv, env, terminal=ours)
        except OSError as error:
            raise UnreachableError(f"{argv[0]} cannot be started: {error}") from error
        target.append(pid)
        for number in received:  # what came while it was being started
            _send(pid, number)
        code = _wait(keeper, pid, received, ours)
    if signal.SIGINT in received or code == -signal.SIGINT:
        return INTERRUPTED
    return code if code >= 0 else 128 - code


def _wait(keeper: Keeper, pid: int, received: list[int], terminal: bool) -> int:
    deadline = math.inf
    while (code := keeper.exit_code(pid, timeout=1.0)) is None:
        if keeper.stopped(pid) and terminal:
            _stop_with_it(pid)
        if received and deadline == math.inf:
            deadline = time.monotonic() + PATIENCE_S
        elif time.monotonic() > deadline:
            _send(pid, signal.SIGKILL)
    return code


@contextmanager
def _passed_on(received: list[int]) -> Iterator[list[int]]:
    """Inside, signals go to the commands in the list that is given out, and into RECEIVED."""
    target: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for pid in target:
            _send(pid, number)

    before = {number: signal.signal(number, pass_on) for number in (*TO_GROUP, *TO_LEADER)}
    try:
        yield target
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        if number in TO_LEADER:
            os.kill(pid, number)
        else:
            os.killpg(pid, number)


@contextmanager
def _terminal_returned() -> Iterator[bool]:
    """Inside, whether the command may take the terminal, because we have it; afterwards it is ours again."""
    try:
        ours = sys.stdin.isatty() and os.tcgetpgrp(0) == os.getpgrp()
    except (OSError, ValueError):
        ours = False
    try:
        yield ours
    finally:
        if ours:
            _take_terminal(os.getpgrp())


def _take_terminal(group: int) -> None:
    # From the background, setting the terminal's group stops the caller unless it ignores SIGTTOU (tcsetpgrp(3)).
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        pass
    finally:
        signal.signal(signal.SIGTTOU, before)


def _stop_with_it(group: int) -> None:
    """The command was suspended from the keyboard: suspend the lab, so that the shell takes over, and go on with it when the shell says so."""
    _take_terminal(os.getpgrp())
    os.kill(os.getpid(), signal.SIGSTOP)
    _take_terminal(group)
    _send(group, signal.SIGCONT)
