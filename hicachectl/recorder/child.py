"""COMMAND as a child: its own process group, our terminal, our signals, its exit code; nothing of it stays behind."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hicachectl.exits import UnreachableError

TO_LEADER = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_KEYS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)
"""Signals that a terminal sends to a whole group: from there they go to the whole group of COMMAND."""
_WAITED = {signal.SIGCHLD, *TO_LEADER, *FROM_KEYS}
_SI_USER = 0
"""si_code of a signal that a process sent with kill(2); the kernel's own (a terminal's keys) have another."""
NATURAL_END_S = 1.0
"""How long what COMMAND left behind may take to end by itself."""
GRACE_S = 5.0
"""How long it may take over SIGTERM before SIGKILL."""
_GIVE_UP_S = 5.0


class Child:
    """A running COMMAND. Between `start` and `wait` this thread keeps its signals blocked; threads that begin meanwhile inherit that."""

    def __init__(self, pid: int, mask: set[signal.Signals], terminal: bool) -> None:
        self.pid = pid
        self.swept = 0
        """Processes that COMMAND left behind and that had to be stopped."""
        self._mask = mask
        self._terminal = terminal

    @classmethod
    def start(cls, command: Sequence[str], env: Mapping[str, str]) -> "Child":
        """Start COMMAND in ENV; UnreachableError where it cannot be started."""
        terminal = _terminal_is_ours()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
        try:
            pid = os.posix_spawnp(
                command[0],
                list(command),
                dict(env),
                setpgroup=0,
                setsigmask=[],  # a library in this process may have blocked some
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these two, COMMAND must not
            )
        except (OSError, ValueError) as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            reason = getattr(error, "strerror", None) or str(error)
            raise UnreachableError(f"cannot start {command[0]}: {reason}") from error
        child = cls(pid, {signal.Signals(number) for number in mask}, terminal)
        if terminal:
            child._give_terminal()
        return child

    def wait(self, tick: Callable[[], None], every: float, suspended: Callable[[], None]) -> int:
        """Wait for the end, with TICK about EVERY seconds and SUSPENDED before this process is stopped with COMMAND.

        Returns COMMAND's exit code, 128+n for signal n; what it left behind in its group has ended then.
        """
        due = time.monotonic() + every
        try:
            while (code := self._ended(suspended)) is None:
                info = signal.sigtimedwait(_WAITED, max(0.0, due - time.monotonic()))
                if info is not None:
                    self._pass_on(info)
                if time.monotonic() >= due:
                    tick()
                    due = time.monotonic() + every
            self.swept = self._sweep()
            return code
        finally:
            if self._terminal:
                _set_terminal(os.getpgrp())
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _pass_on(self, info: signal.struct_siginfo) -> None:
        number = info.si_signo
        if number == signal.SIGCHLD:
            return
        with suppress(ProcessLookupError, PermissionError):
            if number in FROM_KEYS and info.si_code != _SI_USER:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def _ended(self, suspended: Callable[[], None]) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if self._terminal and os.WSTOPSIG(status) in (signal.SIGTTIN, signal.SIGTTOU):
            self._give_terminal()  # it asked for the terminal before it had it
        else:
            self._stop_with_it(suspended)
        return None

    def _stop_with_it(self, suspended: Callable[[], None]) -> None:
        """Suspend this process, so that the shell takes over, and go on with COMMAND when the shell says so."""
        suspended()
        if self._terminal:
            _set_terminal(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._terminal and _terminal_is_ours():
            self._give_terminal()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)

    def _give_terminal(self) -> None:
        _set_terminal(self.pid)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)

    def _sweep(self) -> int:
        """Stop what is left of COMMAND's group; how many had to be told. A second Ctrl-C cuts the grace short."""
        begun, told, cut = time.monotonic(), set[int](), 0.0
        while left := members(self.pid):
            waited = time.monotonic() - begun + cut
            if waited > NATURAL_END_S + GRACE_S + _GIVE_UP_S:
                break
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    if waited >= NATURAL_END_S + GRACE_S:
                        os.kill(pid, signal.SIGKILL)
                        told.add(pid)
                    elif waited >= NATURAL_END_S and pid not in told:
                        os.kill(pid, signal.SIGTERM)
                        os.kill(pid, signal.SIGCONT)
                        told.add(pid)
            info = signal.sigtimedwait(_WAITED, 0.02)
            if info is not None and info.si_signo in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
                cut = max(cut, NATURAL_END_S + GRACE_S - waited)
        return len(told)


def members(group: int) -> list[int]:
    """Living processes of a process group (proc(5): state and group follow the name in parentheses)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _parent, owner, *_ = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue
        if int(owner) == group and state not in (b"Z", b"X"):
            found.append(int(entry.name))
    return found


def _terminal_is_ours() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _set_terminal(group: int) -> None:
    # From the background this would stop the caller, unless it ignores SIGTTOU (tcsetpgrp(3)).
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with suppress(OSError):
            os.tcsetpgrp(0, group)
    finally:
        signal.signal(signal.SIGTTOU, before)
