"""COMMAND as a child: exit codes, signals, and nothing left behind."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from invoke import environment

from hicachectl.exits import UnreachableError
from hicachectl.recorder.child import Child, members


def run(*command: str) -> int:
    """COMMAND's exit code."""
    return Child.start(command, dict(os.environ)).wait(lambda: None, 1.0, lambda: None)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_commands_own(script: str, code: int) -> None:
    """128+n for a signal, as a shell has it."""
    assert run("sh", "-c", script) == code


def test_a_command_that_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    """Absent, not executable, and no program: one sentence each, with the name."""
    for name, text, mode in (("absent", None, 0), ("plain", "x", 0o644), ("odd", "no program", 0o755)):
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
            file.chmod(mode)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        with pytest.raises(UnreachableError, match=name):
            Child.start([str(file)], {})
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_ticks_come_while_it_runs_and_the_mask_returns() -> None:
    """The tick is called about as often as asked; afterwards signals reach this thread as before."""
    ticks: list[float] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert Child.start(["sleep", "0.5"], dict(os.environ)).wait(lambda: ticks.append(1), 0.1, lambda: None) == 0
    assert 3 <= len(ticks) <= 5
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_the_child_begins_with_the_signals_of_a_fresh_process(tmp_path: Path) -> None:
    """No blocked signals, and no SIGPIPE ignored by Python, reach COMMAND."""
    file = tmp_path / "status"
    assert run("sh", "-c", f"exec grep -E '^Sig(Blk|Ign)' /proc/self/status > {file}") == 0
    told = dict(line.split() for line in file.read_text().splitlines())
    assert int(told["SigBlk:"], 16) == 0
    assert not int(told["SigIgn:"], 16) & (1 << (signal.SIGPIPE - 1))


def test_what_the_command_leaves_in_its_group_is_stopped() -> None:
    """A background process of a command that ended is told to end, and killed if it will not."""
    child = Child.start(["sh", "-c", "trap '' TERM; sleep 60 & sh -c 'sleep 60' & true"], dict(os.environ))
    group = child.pid
    began = time.monotonic()
    assert child.wait(lambda: None, 1.0, lambda: None) == 0
    assert members(group) == []
    assert child.swept >= 1
    assert time.monotonic() - began < 10


DRIVER = """
import os, sys
from hicachectl.recorder.child import Child
child = Child.start(sys.argv[1:], dict(os.environ))
sys.exit(child.wait(lambda: None, 0.2, lambda: None))
"""


def drive(*command: str, **options: object) -> subprocess.Popen[bytes]:
    """A process that runs COMMAND as a child, with piped output."""
    told = {"stdout": subprocess.PIPE, "env": environment(), **options}
    return subprocess.Popen([sys.executable, "-c", DRIVER, *command], **told)  # type: ignore[call-overload]


@pytest.mark.parametrize(("sent", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129), ("USR1", 138), ("QUIT", 131)])
def test_a_signal_reaches_the_command_and_its_end_comes_back(sent: str, code: int) -> None:
    """What is sent to us is sent on; the code says by which signal COMMAND died."""
    running = drive("sh", "-c", "echo up; exec sleep 60")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(getattr(signal, f"SIG{sent}"))
    assert running.wait(timeout=20) == code


def test_a_command_that_handles_a_signal_ends_as_it_likes() -> None:
    """A graceful end stays one."""
    running = drive(
        sys.executable,
        "-c",
        "import signal,time;signal.signal(15,lambda *_:exit(5));print('up',flush=True);time.sleep(60)",
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.terminate()
    assert running.wait(timeout=20) == 5


def on_terminal(*command: str) -> tuple[int, int]:
    """(pid, terminal) of a process of its own session that runs COMMAND as a child in the foreground."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", DRIVER, *command], environment({"TERM": "dumb"}))
    return pid, terminal


def until(terminal: int, mark: bytes, seconds: float = 20) -> bytes:
    """What the terminal shows, up to MARK."""
    seen, end = b"", time.monotonic() + seconds
    while mark not in seen:
        assert time.monotonic() < end, seen
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break
    assert mark in seen, seen
    return seen


def test_the_keys_of_a_terminal_reach_the_command() -> None:
    """COMMAND is in the foreground: it can read a line, and Ctrl-C interrupts it."""
    pid, terminal = on_terminal("sh", "-c", "read line; echo got-$line; sleep 60")
    os.write(terminal, b"hello\n")
    until(terminal, b"got-hello")
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    os.close(terminal)


def test_a_suspended_command_suspends_us_and_both_go_on() -> None:
    """Ctrl-Z gives the terminal back to the shell; `fg` resumes COMMAND in the foreground."""
    pid, terminal = on_terminal("sh", "-c", "echo up; read line; echo got-$line")
    until(terminal, b"up")
    time.sleep(0.3)
    os.write(terminal, b"\x1a")
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.3)
    os.write(terminal, b"again\n")
    until(terminal, b"got-again")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    os.close(terminal)
