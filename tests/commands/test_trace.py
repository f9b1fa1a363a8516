"""`hicachectl trace` from outside."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from invoke import environment, hicachectl, plugin_site, start
from recordings import Recording

from hicachectl.store import shelf
from tracers import vocabulary as v

ENGINE = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["HICACHECTL_TRACE"])
for name, text in json.loads(pathlib.Path(sys.argv[1]).read_text()).items():
    (folder / name).write_text(text)
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python in which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python3"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of its own, and a Python that has the plugin."""
    return {
        "HICACHECTL_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(plugin_site(tmp_path / "site")),
        "SGLANG_PLUGINS": "",
    }


def with_plugin(env: dict[str, str]) -> dict[str, str]:
    """ENV for the command line, whose own import path must stay."""
    return env | {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], env["PYTHONPATH"]])}


def engine(tmp_path: Path, seconds: float = 0, code: int = 0) -> list[str]:
    """A command that writes what an engine with one request would."""
    made = Recording()
    one = made.engine()
    one.span(v.ENGINE_START, 1, attributes={v.TP_RANK: 0})
    one.span(v.PREFILL, 2, rid="a", attributes={v.PREFIX_TOKENS: 592, v.PROMPT_TOKENS: 597, v.CLAIM_STORAGE: 592})
    files = {file.name: file.read_text() for file in made.write(tmp_path / "made").iterdir() if file.name != "run.json"}
    (tmp_path / "files.json").write_text(json.dumps(files))
    (tmp_path / "engine.py").write_text(ENGINE)
    return [sys.executable, str(tmp_path / "engine.py"), str(tmp_path / "files.json"), str(seconds), str(code)]


def test_an_engine_is_recorded_and_its_exit_code_passes_through(tmp_path: Path, env: dict[str, str]) -> None:
    """The recording lies under home, says with what it was made, and the last lines tell how to read it."""
    done = hicachectl("trace", "--", *engine(tmp_path, code=7), env=with_plugin(env))
    assert done.returncode == 7
    assert done.stdout == ""
    (run,) = (tmp_path / "home").iterdir()
    about = json.loads((run / "run.json").read_text())
    assert about["command"][0] == sys.executable
    assert f"recorded 1 requests, 2 spans of 1 engine processes in {run}" in done.stderr
    assert "read it with: hicachectl explain\n" in done.stderr
    ledgers = [json.loads(file.read_text()) for file in run.glob("ledger-*")]
    assert [ledger["closed"] for ledger in ledgers] == [True, True]
    assert not list(run.glob("*.tmp"))


def test_a_live_summary_is_written_while_it_runs(tmp_path: Path, env: dict[str, str]) -> None:
    """Without a terminal it is a line, before the command has ended."""
    running = start("trace", "--", *engine(tmp_path, seconds=4), env=with_plugin(env))
    assert running.stderr is not None
    line = running.stderr.readline().decode()
    assert running.poll() is None
    assert "so far 1 requests" in line
    assert "storage 592; computed 5" in line
    assert running.wait(timeout=20) == 0


def test_metrics_are_served_while_it_runs(tmp_path: Path, env: dict[str, str]) -> None:
    """The address is said first, for the port may have been chosen; it is let go with the command, whose exit code passes through."""
    running = start("trace", "--metrics-port", "0", "--", *engine(tmp_path, seconds=4, code=5), env=with_plugin(env))
    assert running.stderr is not None
    url = running.stderr.readline().decode().rpartition(" ")[2].strip()
    assert url.startswith("http://127.0.0.1:")
    text, until = "", time.monotonic() + 10
    while 'hicache_tier="storage"' not in text and time.monotonic() < until:
        time.sleep(0.2)
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    assert running.poll() is None
    (tokens,) = (line for line in text.splitlines() if line.startswith("hicache_request_tokens_total{") and 'hicache_tier="storage"' in line)
    assert tokens.endswith(" 592.0")
    assert running.wait(timeout=20) == 5
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=10)


def test_a_named_folder_is_used_and_told(tmp_path: Path, env: dict[str, str]) -> None:
    """--run DIR takes the recording; the advice names it."""
    run = tmp_path / "my run"
    done = hicachectl("trace", "--run", str(run), "--", *engine(tmp_path), env=with_plugin(env))
    assert done.returncode == 0
    assert len(list(run.glob("spans-*"))) == 1
    assert f"hicachectl explain {run}" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--run", "{full}", "--", "true"], 2, "not empty"),
        (["--otlp", "nonsense", "--", "true"], 2, "--otlp"),
        (["--metrics-port", "nonsense", "--", "true"], 2, "--metrics-port"),
        (["--metrics-port", "192.0.2.1:9400", "--", "true"], 3, "192.0.2.1:9400"),
        ([], 2, "COMMAND"),
        (["--", "/no/such/program"], 3, "/no/such/program"),
        (["--", "{python}", "-I", "-c", "pass"], 3, "no hicachectl plugin"),
        (["--", "env", "SGLANG_PLUGINS=other", "{python}", "-c", "pass"], 3, "SGLANG_PLUGINS=other"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(
    words: list[str], code: int, said: str, tmp_path: Path, env: dict[str, str], bare_python: Path
) -> None:
    """One sentence, the contract's code, and no recording left behind."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    words = [word.format(full=tmp_path / "full", python=bare_python) for word in words]
    done = hicachectl("trace", *words, env=with_plugin(env))
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home").exists() or not list((tmp_path / "home").iterdir())


def test_a_command_that_is_no_engine_is_run_all_the_same(env: dict[str, str]) -> None:
    """Where the Python cannot be told the command runs, and the end says that nothing was recorded."""
    done = hicachectl("trace", "true", env=env | {"PYTHONPATH": ""})
    assert done.returncode == 0
    assert "nothing was recorded" in done.stderr


def test_an_interrupt_ends_the_command_and_is_130(tmp_path: Path, env: dict[str, str]) -> None:
    """Ctrl-C reaches the command; the recording is closed in order."""
    running = start("trace", "--", "sh", "-c", "echo up; exec sleep 60", env=with_plugin(env))
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=20) == 130
    (ledger,) = (tmp_path / "home").glob("*/ledger-*.json")
    assert json.loads(ledger.read_text())["closed"] is True


def test_the_home_folder_is_kept_below_its_bound(tmp_path: Path, env: dict[str, str]) -> None:
    """The oldest recording goes, the new one stays, however small the bound."""
    old = Recording().write(tmp_path / "home" / "20000101T000000.000Z")
    for file in old.iterdir():
        os.utime(file, (time.time() - 9999,) * 2)
    done = hicachectl("trace", "--", *engine(tmp_path), env=with_plugin(env) | {"HICACHECTL_HOME_BYTES": "10"})
    assert done.returncode == 0
    assert not old.exists()
    (run,) = (tmp_path / "home").iterdir()
    assert shelf.of(run).bytes > 10


def test_a_bound_that_is_no_number_stops_before_the_start(env: dict[str, str]) -> None:
    """A wrong setting is a matter of usage."""
    done = hicachectl("trace", "--", "true", env=env | {"HICACHECTL_HOME_BYTES": "10G", "PYTHONPATH": ""})
    assert (done.returncode, "HICACHECTL_HOME_BYTES" in done.stderr) == (2, True)
