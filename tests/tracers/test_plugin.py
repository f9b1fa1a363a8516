"""What SGLang loads: inert unless asked for, light, harmless however often it is loaded and however the process ends."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from processes import BEGIN, environment, python, recorded

from hicachectl import store
from tracers import vocabulary as v

NEVER = ("typer", "rich", "opentelemetry", "torch", "mooncake", "hicachectl", "msgspec", "httpx", "numpy")
"""What an engine process must not import for our sake."""
LOOK = """
import json, sys, threading
print(json.dumps({
    "modules": sorted(sys.modules), "finders": [type(finder).__module__ for finder in sys.meta_path], "threads": [thread.name for thread in threading.enumerate()],
}))
"""


def flushes(run: Path) -> int:
    """Spans of the scheduler's calls that were recorded."""
    return sum(span.name == v.FLUSH for span in store.read([run]).spans)


@pytest.mark.parametrize("env", [{}, {"HICACHECTL_TRACE": ""}, {"HICACHECTL_TRACE": "RUN", "HICACHECTL_OFF": "1"}], ids=["not asked", "empty", "kept out"])
def test_it_is_inert_where_it_was_not_asked_for(tmp_path: Path, env: dict[str, str]) -> None:
    """Nothing but the switch itself is imported, no thread runs, no import is watched, and no file appears."""
    told = {name: value.replace("RUN", str(tmp_path / "run")) for name, value in env.items()}
    done = python(tmp_path, "import tracers.plugin as plugin; plugin.register()\n" + LOOK, env=told, begin="")
    found = json.loads(done.stdout)
    assert {name for name in found["modules"] if name.partition(".")[0] == "tracers"} == {"tracers", "tracers.plugin", "tracers.settings"}
    assert not {name.partition(".")[0] for name in found["modules"]} & {*NEVER, "sglang"}
    assert (found["threads"], [name for name in found["finders"] if name.startswith("tracers")]) == (["MainThread"], [])
    assert not (tmp_path / "run").exists()


def test_switched_on_it_imports_nothing_heavy(tmp_path: Path) -> None:
    """With the tracers on, an engine process gets our own rooms and the standard library, and one thread."""
    done = python(tmp_path, "import tracers.plugin as plugin; plugin.register()\n" + LOOK, env={"HICACHECTL_TRACE": str(tmp_path / "run")}, begin="")
    found = json.loads(done.stdout)
    assert not {name.partition(".")[0] for name in found["modules"]} & {*NEVER, "sglang"}
    assert sorted(found["threads"]) == ["MainThread", "hicachectl-writer"]
    assert done.stderr == ""


def test_loaded_twice_it_is_there_once(tmp_path: Path) -> None:
    """SGLang loads plugins at several places of one process: one writer, one watcher of imports, one span a call."""
    done = recorded(tmp_path, "register(); register(); scheduler.flush_cache(); register(); scheduler.flush_cache()\n" + LOOK)
    found = json.loads(done.stdout)
    assert found["threads"].count("hicachectl-writer") == 1
    assert len([name for name in found["finders"] if name.startswith("tracers")]) == 1
    assert flushes(tmp_path / "run") == 2


def test_it_never_raises(tmp_path: Path) -> None:
    """Whatever fails while it begins is logged, the engine starts, and nothing is left half installed."""
    broken = "import tracers.points; tracers.points.ALL = (None,)\n"
    done = python(tmp_path, LOOK, env={"HICACHECTL_TRACE": str(tmp_path / "run")}, begin=broken + BEGIN)
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert "the engine is not affected" in done.stderr
    assert [name for name in found["finders"] if name.startswith("tracers")] == []


ENDS = {
    "by itself": ("", 0),
    "by sys.exit": ("sys.exit(3)", 3),
    "by an exception": ("raise SystemExit('over')", 1),
    "by a traceback": ("1 / 0", 1),
    "in a thread that still calls": ("threading.Thread(target=lambda: [scheduler.flush_cache() for _ in iter(int, 1)], daemon=True).start(); time.sleep(0.2)", 0),
    "with an interrupt": ("raise KeyboardInterrupt", 130),
}


@pytest.mark.parametrize(("script", "code"), ENDS.values(), ids=ENDS)
def test_spans_that_are_queued_when_the_interpreter_ends_are_written(tmp_path: Path, script: str, code: int) -> None:
    """However Python ends in order, what was recorded before is in the file, the ledger is closed, and the exit code is the program's."""
    began = time.monotonic()
    done = recorded(tmp_path, f"for _ in range(300): scheduler.flush_cache()\n{script}\n")
    assert time.monotonic() - began < 60
    assert done.returncode in (code, -signal.SIGINT if code == 130 else code)
    found = store.read([tmp_path / "run"])
    assert flushes(tmp_path / "run") >= 300
    assert [ledger.closed for ledger in found.ledgers.values()] == [True]
    assert found.missing == 0


def test_a_process_that_is_killed_leaves_a_recording_that_can_be_read(tmp_path: Path) -> None:
    """After SIGKILL the spans up to a second before are there, every line is whole or the last one, and it is told that the end is missing."""
    script = BEGIN + "while True:\n    scheduler.flush_cache(); print(time.time_ns(), flush=True); time.sleep(0.002)\n"
    with subprocess.Popen([sys.executable, "-c", script], env=environment(tmp_path, {"HICACHECTL_TRACE": str(tmp_path / "run")}), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        last = [int(process.stdout.readline()) for _ in range(600)][-1]
        process.kill()
    found = store.read([tmp_path / "run"])
    newest = max(span.end_ns for span in found.spans if span.name == v.FLUSH)
    assert last - newest < 1_000_000_000
    assert found.broken_lines == 0
    assert [reason for reason in found.incomplete if "did not end in order" in reason]


def test_a_scheduler_that_is_killed_once_it_cannot_be_built_has_said_why(tmp_path: Path) -> None:
    """Its parent kills it as soon as it hears of the exception: the span of that failure is in the file before the exception passes on."""
    env = environment(tmp_path, {"HICACHECTL_TRACE": str(tmp_path / "run")})
    module = tmp_path / "site" / "sglang" / "srt" / "managers" / "scheduler.py"
    module.write_text(
        "class Scheduler:\n"
        "    def __init__(self, server_args, port_args, gpu_id, tp_rank):\n"
        "        raise NotImplementedError('Host cache is not supported yet')\n"
    )
    script = """
    from tracers.plugin import register
    register()
    import os
    from types import SimpleNamespace
    from sglang.srt.managers.scheduler import Scheduler
    try:
        Scheduler(SimpleNamespace(), None, 0, 0)
    except NotImplementedError:
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=env, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    built = [span.attributes for span in store.read([tmp_path / "run"]).spans if span.name == v.ENGINE]
    assert [(each[v.OUTCOME], each[v.ERROR_TEXT]) for each in built] == [("failed", "Host cache is not supported yet")]


@pytest.mark.parametrize("place", ["/sys/hicachectl", "/proc/hicachectl/run", "FILE/run"])
def test_a_folder_that_cannot_be_made_costs_the_engine_nothing(tmp_path: Path, place: str) -> None:
    """Where no recording can be made the engine runs as before, and one line is logged."""
    (tmp_path / "file").write_text("")
    script = "for _ in range(50): assert scheduler.flush_cache() is True; time.sleep(0.01)\nprint(scheduler.flushed)"
    done = recorded(tmp_path, script, HICACHECTL_TRACE=place.replace("FILE", str(tmp_path / "file")))
    assert (done.returncode, done.stdout) == (0, "50\n")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_full_disk_costs_the_engine_nothing(tmp_path: Path) -> None:
    """With no room for more than a few lines, calls go on, whole lines are kept, and the loss is in the ledger."""
    script = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
    for _ in range(2000): scheduler.flush_cache(); time.sleep(0.001)
    print(scheduler.flushed)
    """
    done = recorded(tmp_path, script)
    assert (done.returncode, done.stdout) == (0, "2000\n")
    found = store.read([tmp_path / "run"])
    assert (found.broken_lines, found.cut_lines, found.missing) == (0, 0, 0)
    assert 0 < flushes(tmp_path / "run") < 2000
    assert flushes(tmp_path / "run") + found.dropped == 2000


def test_the_folder_may_be_removed_while_the_engine_runs(tmp_path: Path) -> None:
    """The engine goes on, and the folder does not come back."""
    script = """
    import shutil
    scheduler.flush_cache()
    while not os.path.exists(os.environ["HICACHECTL_TRACE"]): time.sleep(0.01)
    time.sleep(0.3)
    shutil.rmtree(os.environ["HICACHECTL_TRACE"])
    for _ in range(300): scheduler.flush_cache(); time.sleep(0.005)
    print(scheduler.flushed)
    """
    done = recorded(tmp_path, script)
    assert (done.returncode, done.stdout) == (0, "301\n")
    assert not (tmp_path / "run").exists()


def test_processes_that_start_at_once_share_a_recording(tmp_path: Path) -> None:
    """Several processes with one folder have files of their own and one run.json."""
    env = environment(tmp_path, {"HICACHECTL_TRACE": str(tmp_path / "run")})
    started = [subprocess.Popen([sys.executable, "-c", BEGIN + "scheduler.flush_cache()"], env=env) for _ in range(4)]
    assert [each.wait() for each in started] == [0] * 4
    found = store.read([tmp_path / "run"])
    assert (flushes(tmp_path / "run"), len(found.ledgers), found.incomplete) == (4, 4, [])
    assert len({span.span_id for span in found.spans}) == len(found.spans)
    assert sorted(path.name.partition("-")[0] for path in (tmp_path / "run").iterdir()) == ["ledger"] * 4 + ["run.json"] + ["spans"] * 4


def test_two_plugins_hook_the_same_method(tmp_path: Path) -> None:
    """Another plugin that wraps the method when it is loaded, after us, sees each call once, and so do we."""
    script = """
    import functools
    original, seen = Scheduler.flush_cache, []
    @functools.wraps(original)
    def theirs(self):
        seen.append(1)
        return original(self)
    Scheduler.flush_cache = theirs
    register()
    for _ in range(5): scheduler.flush_cache()
    print(len(seen), scheduler.flushed)
    """
    assert recorded(tmp_path, script).stdout == "5 5\n"
    assert flushes(tmp_path / "run") == 5


def test_files_are_the_owner_s_alone_to_write(tmp_path: Path) -> None:
    """The recording follows the umask of the engine and is writable for nobody else."""
    recorded(tmp_path, "scheduler.flush_cache()")
    modes = [path.stat().st_mode & 0o022 & ~os.umask(os.umask(0o022)) for path in (tmp_path / "run").iterdir()]
    assert set(modes) == {0}
