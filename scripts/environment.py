"""Sets up what `make` runs in, and prints the environment's `bin` folder on stdout.

Standard library only: it runs before anything is installed.

An environment has two layers, both outside the checkout. The base has SGLang and Mooncake (11 GB), is named after the file of the pair and is
shared by all checkouts. The layer on top belongs to one checkout: it sees the base's packages, has the project as an editable install and the
tools of its tests, and is refreshed in seconds when pyproject.toml changes.
"""  # noqa: INP001

import argparse
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent
PAIRS = CHECKOUT / "scripts" / "pairs"
EXTRAS = "dev,otlp,metrics"
PYTHONS = ((3, 10), (3, 13))
"""The oldest and newest Python that wheels of the pairs exist for."""
NEEDED_GB = 18
"""The base takes 11 GB; while it is installed, the downloaded wheels lie beside it."""
RECIPE = "1"
"""Part of every key: raise it when the way an environment is built changes."""
STEPS = ("Collecting ", "Downloading ", "Building ", "Installing ", "Get:", "Unpacking ", "Setting up ")
"""How lines of pip and apt-get begin that say what is being done."""
TELL_EVERY_S = 15.0
SERVER, PROGRAMS = "prometheus", ("prometheus", "promtool")
"""Debian package of the Prometheus server that tests have metrics scraped by, and its programs; it is unpacked and not installed, so that no service starts."""
SPOILERS = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "VIRTUAL_ENV")
"""Settings of the caller that would make pip install somewhere else."""

sys.path.insert(0, str(CHECKOUT))
from hicachectl.lab.libraries import DEBIAN_PACKAGES  # noqa: E402 - one table for the set-up and for the messages of the lab


class CannotError(Exception):
    """Set-up cannot go on; the text is one sentence for the operator."""


def main() -> None:
    """Set up the pair that is asked for, or say in one sentence why not (exit 3)."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description="Set up the environment of this checkout and print its bin folder.")
    parser.add_argument("pair", help=f"SGLang release: {', '.join(_pairs())}")
    parser.add_argument("--clean", action="store_true", help="remove this checkout's layer instead")
    arguments = parser.parse_args()
    try:
        if arguments.clean:
            _clean(arguments.pair)
        else:
            print(environment(arguments.pair) / "bin")
    except CannotError as error:
        say(f"set-up: {error}")
        sys.exit(3)
    except KeyboardInterrupt:
        say("set-up: interrupted; the next run starts the unfinished part again")
        sys.exit(130)


def environment(pair: str) -> Path:
    """The layer of this checkout for PAIR, built as far as it is not there yet."""
    _check_python()
    requirements = _requirements(pair)
    base = _home() / f"base-{pair}-{_key(sys.version_info[:2], requirements)}"
    layer = _layer(pair)
    wanted = _key(base.name, (CHECKOUT / "pyproject.toml").read_bytes())
    if not _missing_packages() and _is_complete(base, base.name) and _is_complete(layer, wanted) and _has_programs(layer):
        return layer
    with _lock():
        _install_system_packages()
        if not _is_complete(base, base.name):
            _build_base(base, pair, requirements)
        if not _is_complete(layer, wanted):
            _build_layer(layer, base, wanted)
        if not _has_programs(layer):
            _link_programs(layer)
        _remove_orphans()
    return layer


def say(text: str) -> None:
    """Talk, on stderr."""
    print(text, file=sys.stderr, flush=True)


def _pairs() -> list[str]:
    return sorted(path.stem for path in PAIRS.glob("*.txt"))


def _requirements(pair: str) -> list[str]:
    path = PAIRS / f"{pair}.txt"
    if not path.is_file():
        raise CannotError(f"SGLANG={pair} is not a supported pair: take one of {', '.join(_pairs())}")
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [line.replace("-non-cuda", "") for line in lines] if _loads("libcuda.so.1") else lines


def _home() -> Path:
    if given := os.environ.get("HICACHECTL_ENVS"):
        return Path(given).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hicachectl" / "envs"


def _layer(pair: str) -> Path:
    return _home() / f"checkout-{pair}-{_key(str(CHECKOUT))}"


def _key(*parts: object) -> str:
    return hashlib.sha256(repr((RECIPE, *parts)).encode()).hexdigest()[:12]


def _is_complete(folder: Path, wanted: str) -> bool:
    marker = folder / "complete"
    return marker.is_file() and marker.read_text() == wanted and (folder / "bin" / "python").exists()


def _check_python() -> None:
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        oldest, newest = (".".join(map(str, version)) for version in PYTHONS)
        here = ".".join(map(str, sys.version_info[:2]))
        raise CannotError(
            f"SGLang's wheels need Python {oldest} to {newest}, this is {here}: make PYTHON=/path/to/python3.11 ..."
        )


def _missing_packages() -> list[str]:
    packages = [package for library, package in DEBIAN_PACKAGES.items() if not _loads(library)]
    if importlib.util.find_spec("ensurepip") is None:
        packages.append(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")
    return packages


def _install_system_packages() -> None:
    packages = _missing_packages()
    if not packages:
        return
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise CannotError(f"system libraries are missing and there is no apt-get: install what Debian calls {names}")
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and (
        shutil.which("sudo") is None
        or subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode
    ):
        raise CannotError(
            f"system libraries are missing and only root may install them; run as root: apt-get install {names}"
        )
    say(f"set-up: installing system libraries with apt-get: {names}")
    quiet = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    _run([*quiet, "update"], "apt-get update")
    _run([*quiet, "install", "--yes", "--no-install-recommends", *packages], f"apt-get install {names}")


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _build_base(base: Path, pair: str, requirements: list[str]) -> None:
    _check_space(base.parent)
    say(f"set-up: SGLang {pair} with Mooncake: 11 GB and about 6 minutes, once for all checkouts; it goes to {base}")
    _make_venv(base, "--clear")
    pip = [str(base / "bin" / "python"), "-m", "pip"]
    _run([*pip, "install", "--upgrade", "pip"], "installing pip")
    _run([*pip, "install", *requirements], f"installing {' '.join(requirements)}")
    (base / "complete").write_text(base.name)


def _build_layer(layer: Path, base: Path, wanted: str) -> None:
    say(f"set-up: the project and its test tools, about 20 seconds; they go to {layer}")
    _make_venv(layer, "--clear", "--without-pip")
    python = str(layer / "bin" / "python")
    site = next((layer / "lib").glob("python3.*/site-packages"))
    below = next((base / "lib").glob("python3.*/site-packages"))
    # addsitedir and not a bare path, so that .pth files of the base work as well
    (site / "base.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
    pins = layer / "base.txt"
    pins.write_bytes(
        subprocess.run(
            [str(base / "bin" / "python"), "-m", "pip", "freeze", "--all"], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    # The base's versions are constraints: nothing that SGLang was installed with may be covered by another version in the layer.
    arguments = ["install", "--constraint", str(pins), "--editable", f"{CHECKOUT}[{EXTRAS}]"]
    _run([python, "-m", "pip", *arguments], "installing the project")
    (layer / "checkout").write_text(str(CHECKOUT))
    (layer / "complete").write_text(wanted)


def _has_programs(layer: Path) -> bool:
    """Whether the programs that tests run are there, or cannot be got: those tests then say so."""
    return shutil.which("apt-get") is None or all((layer / "bin" / name).exists() for name in PROGRAMS)


def _link_programs(layer: Path) -> None:
    """Put the programs that tests run into the layer; where they cannot be downloaded, say so and go on."""
    unpacked = _home() / SERVER
    try:
        if not (unpacked / "complete").is_file():
            say("set-up: a Prometheus server for the tests, 19 MB")
            shutil.rmtree(unpacked, ignore_errors=True)
            unpacked.mkdir(parents=True)
            script = f"cd '{unpacked}' && {{ apt-get download {SERVER} || {{ apt-get -qq update && apt-get download {SERVER}; }}; }} && dpkg-deb -x {SERVER}_*.deb . && rm {SERVER}_*.deb"
            _run(["sh", "-ec", script], f"downloading {SERVER}")
            (unpacked / "complete").write_text(SERVER)
    except CannotError as error:
        say(f"set-up: {error}; going on without: tests that need it will say so")
        return
    for name in PROGRAMS:
        (layer / "bin" / name).unlink(missing_ok=True)
        (layer / "bin" / name).symlink_to(unpacked / "usr" / "bin" / name)


def _make_venv(folder: Path, *options: str) -> None:
    (folder / "complete").unlink(missing_ok=True)
    _run([sys.executable, "-m", "venv", *options, str(folder)], f"making {folder}")


def _check_space(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free // 10**9
    if free < NEEDED_GB:
        raise CannotError(
            f"{folder} has {free} GB free and set-up needs {NEEDED_GB} GB: make room, or name another folder in HICACHECTL_ENVS"
        )


def _run(command: Sequence[str], what: str) -> None:
    """Run COMMAND, its output in a log file; say now and then how far it is; on failure show the log's end."""
    _home().mkdir(parents=True, exist_ok=True)
    log = _home() / "set-up.log"
    start = told = time.monotonic()
    env = {name: value for name, value in os.environ.items() if name not in SPOILERS}
    env |= {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_PROGRESS_BAR": "off",
        "TMPDIR": str(_scratch()),
    }
    with log.open("wb") as output, _started(command, output, env) as process:
        while process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - told >= TELL_EVERY_S:
                told = time.monotonic()
                say(f"set-up: {_clock(told - start)}  {what}: {_at_work_on(log)}")
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        say(tail)
        raise CannotError(f"{what} failed with exit code {process.returncode}; the lines above are the end of {log}")
    if time.monotonic() - start >= TELL_EVERY_S:
        say(f"set-up: {_clock(time.monotonic() - start)}  {what}: done")


@contextmanager
def _started(command: Sequence[str], output: IO[bytes], env: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        close_fds=False,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # a step starts processes of its own
        process.wait()


def _scratch() -> Path:
    """Where pip unpacks: gigabytes, for which /tmp may be too small."""
    folder = _home() / "unpacking"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _at_work_on(log: Path) -> str:
    """What pip or apt-get says that it is doing, at most 80 characters."""
    steps = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip().startswith(STEPS)]
    if not steps:
        return "started"
    if (listed := steps[-1].removeprefix("Installing collected packages: ")) != steps[-1]:
        return f"unpacking {listed.count(',') + 1} packages, the longest part"
    return steps[-1][:80]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def _lock() -> Iterator[None]:
    """One set-up at a time; the lock goes with the process that holds it."""
    _home().mkdir(parents=True, exist_ok=True)
    with (_home() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("set-up: another set-up is at work in the same place; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)  # a pip that outlives a killed set-up keeps the lock until it ends
        try:
            yield
        finally:
            shutil.rmtree(_scratch(), ignore_errors=True)


def _remove_orphans() -> None:
    """Remove layers whose checkout is gone."""
    for marker in _home().glob("checkout-*/checkout"):
        if not (Path(marker.read_text()) / "pyproject.toml").exists():
            shutil.rmtree(marker.parent, ignore_errors=True)


def _clean(pair: str) -> None:
    with _lock():
        shutil.rmtree(_layer(pair), ignore_errors=True)
    bases = sorted(str(path) for path in _home().glob("base-*"))
    if bases:
        say(f"kept, because every checkout uses it: {', '.join(bases)}")


if __name__ == "__main__":
    main()
