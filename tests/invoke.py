"""Runs the command line as a user does: in a process of its own."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hicachectl import cli

ROOT = Path(__file__).resolve().parents[1]
MAIN = "import sys; from hicachectl.cli import main; main()"


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with the checkout importable, and ENV on top."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(env or {})}


def argv(*words: str) -> list[str]:
    """The command line `hicachectl WORDS`, run by this Python."""
    return [sys.executable, "-c", MAIN, *words]


def hicachectl(
    *words: str, env: Mapping[str, str] | None = None, stdin: bytes = b"", timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `hicachectl WORDS` to its end; SIGINT has its default effect, whatever this process does with it."""
    done = subprocess.run(
        argv(*words),
        env=environment(env),
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
        preexec_fn=_keys_work,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True)
class Ended:
    """How a command that ran in this process ended."""

    returncode: int
    stdout: str
    stderr: str


def inside(*words: str, stdin: bytes = b"") -> Ended:
    """Run `hicachectl WORDS` in this process, for many cases in little time: what it would do in one of its own, a traceback is raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv, sys.stdin, sys.stdout, sys.stderr = ["hicachectl", *words], io.TextIOWrapper(io.BytesIO(stdin)), out, err
    try:
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    return Ended(code, out.buffer.getvalue().decode(errors="replace"), err.buffer.getvalue().decode())  # type: ignore[attr-defined]


def start(*words: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Start `hicachectl WORDS` with piped output."""
    told: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": _keys_work, **options}
    return subprocess.Popen(argv(*words), env=environment(env), **told)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON document that it printed."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def plugin_site(folder: Path, names: Sequence[str] = ("hicachectl",)) -> Path:
    """A folder that, on PYTHONPATH, gives a Python the plugins NAMES."""
    info = folder / "made_up_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up-plugins\nVersion: 1.0\n")
    rows = "".join(f"{name} = nowhere:register\n" for name in names)
    (info / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{rows}")
    return folder


def _keys_work() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
