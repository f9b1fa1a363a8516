"""The keeper: what it started ends when it is told to, and when its owner is gone."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import invoke
import pytest

from hicachectl.exits import UnreachableError
from hicachectl.lab.keeping import Keeper


def lives(pid: int) -> bool:
    """Whether PID runs and is no zombie."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def ended(*pids: int, seconds: float = 10) -> bool:
    """Whether all of PIDS end within SECONDS."""
    deadline = time.monotonic() + seconds
    while any(lives(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(lives(pid) for pid in pids)


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A keeper that is closed after the test."""
    with contextlib.closing(Keeper()) as keeper:
        yield keeper


def shell(keeper: Keeper, script: str, *, service: bool = False) -> int:
    """Start a shell script; its pid."""
    return keeper.start(["sh", "-c", script], dict(os.environ), log=keeper.scratch / "log", service=service)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill -TERM $$", -15)])
def test_exit_codes_come_back(keeper: Keeper, script: str, code: int) -> None:
    """The code of an exit, the negative number of a signal."""
    assert keeper.exit_code(shell(keeper, script), timeout=10) == code


def test_a_running_process_has_no_exit_code_yet(keeper: Keeper) -> None:
    """Asking does not wait longer than it was told to."""
    pid = shell(keeper, "sleep 60")
    begun = time.monotonic()
    assert keeper.exit_code(pid, timeout=0.2) is None
    assert keeper.exit_code(pid) is None
    assert 0.2 <= time.monotonic() - begun < 2


def test_what_cannot_be_started_is_an_error_and_the_keeper_goes_on(keeper: Keeper) -> None:
    """The reason of the operating system comes back; the next start works."""
    with pytest.raises(OSError, match="No such file or directory"):
        keeper.start(["/no/such/program"], {})
    assert keeper.exit_code(shell(keeper, "exit 5"), timeout=10) == 5


def test_an_owner_with_a_thousand_open_files_has_a_keeper_too(tmp_path: Path) -> None:
    """The number of the owner's end is as high as it may be; `select` takes none above 1023."""
    (tmp_path / "file").touch()
    with contextlib.ExitStack() as files:
        while files.enter_context((tmp_path / "file").open()).fileno() < 1100:
            pass
        with contextlib.closing(Keeper()) as keeper:
            assert keeper.exit_code(shell(keeper, "exit 4"), timeout=10) == 4


def test_output_goes_into_the_log_and_the_environment_is_the_given_one(keeper: Keeper) -> None:
    """Nothing of the owner's environment is added."""
    log = keeper.scratch / "env.log"
    assert keeper.exit_code(keeper.start(["/usr/bin/env"], {"ONLY": "this"}, log=log), timeout=10) == 0
    assert log.read_text() == "ONLY=this\n"


def test_a_sweep_stops_all_but_services(keeper: Keeper) -> None:
    """Children, a daemon in its own session, and one that ignores SIGTERM end; the service stays, until close."""
    service = shell(keeper, "exec sleep 60", service=True)
    plain = shell(keeper, "exec sleep 60")
    pids = keeper.scratch / "pids"
    shell(
        keeper,
        f"setsid sh -c 'echo $$ >> {pids}; exec sleep 60' & setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; while :; do sleep 1; done' &",
    )
    while not pids.exists() or pids.read_text().count("\n") < 2:
        time.sleep(0.02)
    daemons = [int(line) for line in pids.read_text().split()]
    assert keeper.sweep(grace=0.5) >= 3
    assert ended(plain, *daemons)
    assert lives(service)
    keeper.close()
    assert ended(service)


def test_a_suspended_process_ends_with_the_sweep_as_well(keeper: Keeper) -> None:
    """SIGSTOP does not keep a process alive."""
    pid = shell(keeper, "exec sleep 60")
    os.kill(pid, signal.SIGSTOP)
    assert keeper.exit_code(pid, timeout=5) is None
    assert keeper.stopped(pid)
    assert not keeper.stopped(pid)
    keeper.sweep(grace=0.5)
    assert ended(pid)


def test_a_process_that_ends_by_itself_is_left_in_peace(keeper: Keeper) -> None:
    """A sweep gives what is about to end its time: nobody had to be told."""
    shell(keeper, "exec sleep 0.2")
    assert keeper.sweep() == 0


def test_closing_removes_the_scratch_folder_and_can_be_repeated() -> None:
    """Nothing of the keeper is left."""
    keeper = Keeper()
    pid = shell(keeper, "exec sleep 60", service=True)
    keeper.close()
    keeper.close()
    assert ended(pid)
    assert not keeper.scratch.exists()


def test_a_keeper_that_died_is_said_and_its_processes_are_gone(keeper: Keeper) -> None:
    """The next question raises one sentence; nothing hangs."""
    pid = shell(keeper, "exec sleep 60")
    os.kill(keeper._process.pid, signal.SIGKILL)
    assert ended(pid)
    with pytest.raises(UnreachableError, match="keeper"):
        keeper.sweep()
    keeper.close()
    assert not keeper.scratch.exists()


OWNER = """
import os, sys
from hicachectl.lab.keeping import Keeper
keeper = Keeper()
pid = keeper.start(["sleep", "60"], dict(os.environ), log=keeper.scratch / "log", service=True)
child = os.fork()
if child == 0:
    import time
    time.sleep(60)
print(pid, child, keeper.scratch, flush=True)
sys.stdin.read()
"""


def test_an_owner_that_is_killed_takes_all_with_it_even_if_a_forked_child_of_it_lives() -> None:
    """A fork that inherited the keeper's socket does not keep it up: the keeper also looks who its parent is."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=invoke.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid, child, scratch = process.stdout.readline().split()
    process.kill()
    process.wait()
    assert ended(int(pid))
    assert lives(int(child))
    os.kill(int(child), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(scratch).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(scratch).exists()
