"""`trace --attach` and `--detach` from outside, with processes that look like engines."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from invoke import environment, hicachectl, start

from hicachectl import store
from hicachectl.recorder import switchboard
from tracers import vocabulary as v

ENGINE = """
import os, sys, time
from tracers.plugin import register
register()
from sglang.srt.managers.scheduler import Scheduler

def run_scheduler_process():
    scheduler = Scheduler()
    print("ready", flush=True)
    while True:
        scheduler.flush_cache()
        time.sleep(0.01)

if sys.argv[1:] == ["server"]:
    import subprocess
    child = subprocess.Popen([sys.executable, __file__])
    child.wait()
elif sys.argv[1:] == ["loading"]:
    print("ready", flush=True)
    time.sleep(3600)
else:
    run_scheduler_process()
"""
SCHEDULER = "class Args:\n    pass\n\nclass Scheduler:\n    def __init__(self):\n        self.server_args = Args()\n\n    def flush_cache(self):\n        return True\n"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home, a folder of sockets, and a stand-in of SGLang of their own."""
    package = tmp_path / "site" / "sglang" / "srt" / "managers"
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    (package / "scheduler.py").write_text(SCHEDULER)
    (tmp_path / "engine.py").write_text(ENGINE)
    path = os.pathsep.join([str(tmp_path / "site"), environment()["PYTHONPATH"]])
    return {"HICACHECTL_HOME": str(tmp_path / "home"), v.ATTACH_FOLDER_VARIABLE: str(tmp_path / "sockets"), "PYTHONPATH": path}


@contextmanager
def engine(tmp_path: Path, env: Mapping[str, str], *words: str, attach: str = "1") -> Iterator["subprocess.Popen[str]"]:
    """A stand-in engine, in a group of its own."""
    told = environment({**env, "HICACHECTL_ATTACH": attach})
    command = [sys.executable, str(tmp_path / "engine.py"), *words]
    with subprocess.Popen(command, env=told, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def attached(running: "subprocess.Popen[bytes]") -> str:
    """What it said up to that it is attached."""
    assert running.stderr is not None
    said = ""
    while "attached to" not in said:
        line = running.stderr.readline().decode()
        assert line, said
        said += line
    return said


def flushes(run: Path) -> int:
    """Recorded calls."""
    return sum(span.name == v.FLUSH for span in store.read([run]).spans)


def test_an_attach_for_some_seconds_makes_a_recording_like_any_other(tmp_path: Path, env: dict[str, str]) -> None:
    """A new folder under home, run.json with the command, a live summary's last word, exit 0, and nothing incomplete."""
    with engine(tmp_path, env) as process:
        done = hicachectl("trace", "--attach", str(process.pid), "--for", "2", env=env)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"attached to 1 processes, schedulers: {process.pid}" in done.stderr
    assert "read it with: hicachectl explain\n" in done.stderr
    (run,) = (tmp_path / "home").iterdir()
    assert json.loads((run / "run.json").read_text())["command"] == ["hicachectl", "trace", "--attach", str(process.pid)]
    assert flushes(run) > 10
    found = store.read([run])
    assert found.incomplete == []
    assert {each.closed for each in found.ledgers.values()} == {True}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_key_or_a_signal_ends_it_in_order(number: signal.Signals, code: int, tmp_path: Path, env: dict[str, str]) -> None:
    """The engine is detached from, and goes on; the exit code is the contract's; another attach works."""
    run = tmp_path / "run"
    with engine(tmp_path, env) as process:
        running = start("trace", "--attach", "all", "--run", str(run), env=env)
        attached(running)
        time.sleep(0.5)
        running.send_signal(number)
        _, said = running.communicate(timeout=30)
        assert running.returncode == code
        assert f"hicachectl explain {run}" in said.decode()
        assert process.poll() is None
        assert {each.closed for each in store.read([run]).ledgers.values()} == {True}
        assert hicachectl("trace", "--attach", "all", "--for", "0.5", env=env).returncode == 0


def test_a_killed_trace_leaves_the_engine_free(tmp_path: Path, env: dict[str, str]) -> None:
    """After SIGKILL of `trace` the engine notices by itself, and can be attached to anew."""
    with engine(tmp_path, env):
        running = start("trace", "--attach", "all", "--run", str(tmp_path / "run"), env=env)
        attached(running)
        running.kill()
        running.communicate(timeout=30)
        time.sleep(2)
        assert hicachectl("trace", "--attach", "all", "--for", "0.5", env=env).returncode == 0


@pytest.mark.parametrize("words", [["--detach"], ["--detach", "all"], ["--detach", "{pid}"], ["--attach", "{pid}", "--detach"]])
def test_a_detach_from_elsewhere_ends_it_with_0(words: list[str], tmp_path: Path, env: dict[str, str]) -> None:
    """However the process is named, the recording ends, who attached says why and exits 0; a second detach has nothing to end."""
    with engine(tmp_path, env) as process:
        running = start("trace", "--attach", str(process.pid), "--run", str(tmp_path / "run"), env=env)
        attached(running)
        told = [word.format(pid=process.pid) for word in words]
        done = hicachectl("trace", *told, env=env)
        assert (done.returncode, done.stderr) == (0, f"hicachectl: ended the recording of processes {process.pid}\n")
        _, said = running.communicate(timeout=30)
        assert running.returncode == 0
        assert f"process {process.pid}: process" in said.decode()
        assert "nothing to end" in hicachectl("trace", *told, env=env).stderr


def test_a_second_attach_is_refused_and_the_first_goes_on(tmp_path: Path, env: dict[str, str]) -> None:
    """One sentence that says by whom and where, exit 3, and no folder left behind."""
    with engine(tmp_path, env) as process:
        running = start("trace", "--attach", "all", "--run", str(tmp_path / "run"), env=env)
        attached(running)
        done = hicachectl("trace", "--attach", str(process.pid), env=env)
        assert done.returncode == 3
        assert f"is being recorded already, by process {running.pid}, in {tmp_path / 'run'}" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "home").exists()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)


def test_the_pid_of_a_server_stands_for_its_schedulers(tmp_path: Path, env: dict[str, str]) -> None:
    """Parent and scheduler listen each under its own id; naming the parent attaches to both, naming the scheduler to it alone."""
    with engine(tmp_path, env, "server") as process:
        pids = sorted(int(path.name.partition(".")[0]) for path in (tmp_path / "sockets").iterdir())
        assert len(pids) == 2
        assert process.pid in pids
        (child,) = [pid for pid in pids if pid != process.pid]
        both = hicachectl("trace", "--attach", str(process.pid), "--for", "1", env=env)
        alone = hicachectl("trace", "--attach", str(child), "--for", "1", env=env)
    assert f"attached to 2 processes, schedulers: {child};" in both.stderr
    assert f"attached to 1 processes, schedulers: {child};" in alone.stderr
    assert (both.returncode, alone.returncode) == (0, 0)
    for run in (tmp_path / "home").iterdir():
        assert store.read([run]).incomplete == []


def test_an_engine_that_comes_while_all_are_recorded_is_recorded_too(tmp_path: Path, env: dict[str, str]) -> None:
    """With `all`, an engine that is started meanwhile joins the recording."""
    run = tmp_path / "run"
    with engine(tmp_path, env) as first:
        running = start("trace", "--attach", "all", "--run", str(run), env=env)
        attached(running)
        with engine(tmp_path, env) as second:
            time.sleep(4)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=30)
    assert {each.pid for each in store.read([run]).ledgers.values()} >= {first.pid, second.pid}


def test_the_end_of_every_engine_ends_it(tmp_path: Path, env: dict[str, str]) -> None:
    """An engine that is killed takes the recording with it: exit 0, and `explain` will say that the end is missing."""
    with engine(tmp_path, env) as process:
        running = start("trace", "--attach", "all", "--run", str(tmp_path / "run"), env=env)
        attached(running)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 0
    assert f"process {process.pid}: it has ended" in said.decode()
    assert [reason for reason in store.read([tmp_path / "run"]).incomplete if "did not end in order" in reason]


def test_sockets_of_processes_that_are_gone_are_removed_and_told(tmp_path: Path, env: dict[str, str]) -> None:
    """A socket on which nobody listens is taken away, and those on which somebody does are kept."""
    with engine(tmp_path, env) as process:
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(tmp_path / "sockets" / "999999999.sock"))
        done = hicachectl("trace", "--attach", "all", "--for", "0.5", env=env)
        assert done.returncode == 0
        assert "removed the sockets of processes that are gone: 999999999\n" in done.stderr
        assert [path.name for path in (tmp_path / "sockets").iterdir()] == [f"{process.pid}.sock"]


def test_an_engine_that_still_loads_is_told_apart(tmp_path: Path, env: dict[str, str]) -> None:
    """It listens, and runs no scheduler yet."""
    with engine(tmp_path, env, "loading") as process:
        done = hicachectl("trace", "--attach", str(process.pid), env=env)
    assert done.returncode == 3
    assert "run no scheduler: is it still starting?" in done.stderr


def test_an_engine_that_is_stopped_is_not_waited_for_for_ever(tmp_path: Path, env: dict[str, str]) -> None:
    """A process that listens and does not answer is said to, within some seconds."""
    with engine(tmp_path, env) as process:
        process.send_signal(signal.SIGSTOP)
        done = hicachectl("trace", "--attach", str(process.pid), env=env, timeout=40)
        process.send_signal(signal.SIGCONT)
    assert done.returncode == 3
    assert "listens and does not answer" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--attach", "all"], 3, "no engine of this user listens: start the engine with HICACHECTL_ATTACH=1"),
        (["--attach", "{own}"], 3, "neither process {own} nor a child of it listens"),
        (["--attach", "999999999"], 3, "there is no process 999999999"),
        (["--detach"], 3, "no engine of this user listens"),
        (["--attach", "one"], 2, "one is neither a process id nor 'all'"),
        (["--attach", "0"], 2, "0 is neither"),
        (["--attach", "9" * 5000], 2, "is neither a process id nor 'all'"),
        (["--detach", "\u00b2"], 2, "\u00b2 is neither"),
        (["--attach", "all", "--for", "0"], 2, "--for"),
        (["--attach", "all", "--for", "nan"], 2, "--for"),
        (["--for", "3", "--", "true"], 2, "--for"),
        (["--attach", "all", "--", "true"], 2, "exclude each other"),
        (["--detach", "all", "--run", "x"], 2, "--detach takes no other option"),
        (["--attach", "all", "--otlp", "nonsense"], 2, "--otlp"),
        ([], 2, "COMMAND is missing"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(words: list[str], code: int, said: str, tmp_path: Path, env: dict[str, str]) -> None:
    """Bad input, and nobody who listens: the contract's code and no recording."""
    own = str(os.getpid())
    done = hicachectl("trace", *[word.format(own=own) for word in words], env=env)
    assert done.returncode == code
    assert said.format(own=own) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "home").exists() or not list((tmp_path / "home").iterdir())


def test_words_of_the_command_are_not_ours(tmp_path: Path, env: dict[str, str]) -> None:
    """`--detach` among COMMAND's own words is passed on as it stands."""
    done = hicachectl("trace", "--", "sh", "-c", 'test "$*" = "--detach"', "sh", "--detach", env=env)
    assert done.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_s_engine_is_refused_and_a_folder_of_another_s_is_not_trusted(tmp_path: Path, env: dict[str, str]) -> None:
    """Only the user and root attach; sockets in a folder that others may write could be anybody's."""
    with engine(tmp_path, env) as process:
        script = f"import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\nfrom hicachectl.recorder import switchboard\ntry: switchboard.folder_of({process.pid})\nexcept Exception as error: print(type(error).__name__, error)"
        done = subprocess.run([sys.executable, "-c", script], env=environment(env), capture_output=True, text=True, check=False)
        if done.returncode == 0:  # where another user may read the checkout
            assert done.stdout == f"UnreachableError process {process.pid} is another user's: only that user and root may attach to it\n"
        (tmp_path / "sockets").chmod(0o777)
        refused = hicachectl("trace", "--attach", str(process.pid), env=env)
        assert refused.returncode == 3
        assert "cannot be trusted" in refused.stderr


def test_a_family_is_a_process_and_all_that_descend_from_it() -> None:
    """Children are found by what the kernel says of parents."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as shell:
        try:
            deadline = time.monotonic() + 10
            while len(switchboard.family(shell.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            found = switchboard.family(shell.pid)
            assert len(found) == 2
            assert shell.pid in found
            assert found < switchboard.family(os.getpid())
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
