"""Set-up: the project moves nothing in SGLang's environment, and environments are built once, whole, and by one at a time."""

import fcntl
import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import invoke
import pytest

SCRIPT = Path("scripts") / "environment.py"


@pytest.mark.real
@pytest.mark.parametrize("extras", ["", "[otlp]"])
def test_installing_the_project_moves_no_version_of_sglangs_environment(extras: str) -> None:
    """Pip itself, asked what it would do in the environment that has SGLang, would install only what is not there."""
    python = python_of_sglang()
    report = pip(python, "install", "--dry-run", "--quiet", "--report", "-", f"{invoke.ROOT}{extras}")
    wanted = {normal(item["metadata"]["name"]): item["metadata"]["version"] for item in json.loads(report)["install"]}
    assert "hicachectl" in wanted
    have = {normal(item["name"]): item["version"] for item in json.loads(pip(python, "list", "--format", "json"))}
    assert "sglang" in have
    moved = {name: (have[name], version) for name, version in wanted.items() if name in have and name != "hicachectl"}
    assert moved == {}


def python_of_sglang() -> str:
    """The Python of the environment in which SGLang itself is installed: below this one where `make` built it, else this one."""
    if importlib.util.find_spec("sglang") is None:
        pytest.skip("SGLang is not installed beside this Python")
    place = Path(str(importlib.metadata.distribution("sglang").locate_file("")))
    return str(place.parents[2] / "bin" / "python")


def pip(python: str, *words: str) -> str:
    """What pip prints; this process's search path is not its own."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def normal(name: str) -> str:
    """A distribution's name as all spellings of it become."""
    return name.lower().replace("_", "-").replace(".", "-")


def test_a_pair_that_is_not_supported_is_named_with_those_that_are() -> None:
    """Exit 3, one sentence, nothing on stdout."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "0.1"], cwd=invoke.ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "0.5.14" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists() or shutil.which("mount") is None, reason="needs Linux")
def test_too_little_room_is_said_before_anything_is_downloaded(tmp_path: Path) -> None:
    """Free and needed gigabytes, and the setting that names another place; here on a file system of 1 MB."""
    script = f"mount -t tmpfs -o size=1m none {tmp_path}"
    if subprocess.run(["unshare", "-m", "sh", "-ec", script], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and namespaces")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh", sys.executable, str(SCRIPT), "0.5.14"],
        cwd=invoke.ROOT,
        env={**os.environ, "HICACHECTL_ENVS": str(tmp_path / "envs")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "0 GB free" in done.stderr
    assert "HICACHECTL_ENVS" in done.stderr


class Checkout:
    """A checkout with a tiny pair, so that a real environment is built in seconds."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        for name in ("scripts/environment.py", "hicachectl", "tracers", "README.md", "LICENSE", "pyproject.toml"):
            source, target = invoke.ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        (folder / "scripts" / "pairs").mkdir()
        (folder / "scripts" / "pairs" / "tiny.txt").write_text("# a pair for tests\niniconfig\n")

    def start(self) -> "subprocess.Popen[str]":
        """Start its set-up."""
        return subprocess.Popen(
            [sys.executable, str(self.folder / SCRIPT), "tiny"],
            env={**os.environ, "HICACHECTL_ENVS": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def set_up(self) -> tuple[Path, str, float]:
        """Run its set-up; the bin folder, the talk, the seconds."""
        begun = time.monotonic()
        process = self.start()
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert out.count("\n") == 1
        return Path(out.strip()), err, time.monotonic() - begun


def soon(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until HOLDS."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_held(lock: Path) -> bool:
    """Whether some process has LOCK."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.slow
def test_an_environment_is_built_once_whole_and_by_one_at_a_time(tmp_path: Path) -> None:
    """An interrupted build is done again; a second checkout waits, shares the base, and runs its own code; later runs start at once."""
    home = tmp_path / "envs"
    first, second = (Checkout(tmp_path / name, home) for name in ("first", "second"))
    interrupted = first.start()
    soon(lambda: any(home.glob("base-tiny-*/lib/python3.*/site-packages/pip")))
    interrupted.send_signal(signal.SIGKILL)
    interrupted.communicate()
    assert not list(home.glob("base-*/complete"))

    builder = first.start()
    soon(lambda: is_held(home / "lock"))
    other_bin, talk, _ = second.set_up()
    out, _ = builder.communicate(timeout=300)
    assert "waiting" in talk
    assert len(list(home.glob("base-*"))) == 1
    for checkout, place in ((first, Path(out.strip())), (second, other_bin)):
        where = subprocess.run(
            [place / "python", "-c", "import hicachectl, iniconfig; print(hicachectl.__file__)"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert where.stdout == f"{checkout.folder}/hicachectl/__init__.py\n", where.stderr
        assert subprocess.run([place / "hicachectl", "--version"], cwd="/", check=False).returncode == 0

    again, talk, seconds = first.set_up()
    assert (str(again), talk) == (out.strip(), "")
    assert seconds < 2

    pyproject = first.folder / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + "\n# changed\n")
    shutil.rmtree(second.folder)
    _, talk, _ = first.set_up()
    assert "the project and its test tools" in talk
    assert "11 GB" not in talk
    assert not other_bin.exists()
