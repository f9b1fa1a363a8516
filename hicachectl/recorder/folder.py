"""The folder of a new recording: made, claimed, and removed again where COMMAND could not be started."""

import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.store import files, shelf
from tracers.vocabulary import RECORDING_VERSION

_SECRET = re.compile(r"(?i)(api-?key|secret|password|passwd|auth-?token|access-?token|hf-?token)")
_HIDDEN = "***"


def make(asked: Path | None) -> Path:
    """An empty folder: ASKED, or a new one under the home folder, which is brought below its bound first.

    UsageError where ASKED is not empty.
    """
    try:
        return _named(asked.absolute()) if asked is not None else _under_home()
    except OSError as error:
        raise UnreachableError(
            f"cannot make a folder for the recording at {error.filename}: {error.strerror}"
        ) from error


def claim(folder: Path, command: Sequence[str]) -> None:
    """Write run.json unless another process has: a link appears whole or not at all."""
    about = {
        "recording_version": RECORDING_VERSION,
        "created_ms": time.time_ns() // 1_000_000,
        "command": without_secrets(command),
    }
    temporary = folder / f".run-{os.getpid()}.tmp"
    try:
        temporary.write_text(json.dumps(about) + "\n", encoding="utf-8")
        with suppress(FileExistsError):
            os.link(temporary, folder / files.RUN_FILE)
    except OSError as error:
        raise UnreachableError(f"cannot write into {folder}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def drop(folder: Path) -> None:
    """Remove a folder in which nothing was recorded."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def without_secrets(command: Sequence[str]) -> list[str]:
    """COMMAND with the values of options that name a secret hidden, as far as their names tell."""
    shown: list[str] = []
    for word in command:
        name, equals, _ = word.partition("=")
        if shown and shown[-1].startswith("-") and "=" not in shown[-1] and _SECRET.search(shown[-1]):
            shown.append(_HIDDEN)
        elif equals and _SECRET.search(name.replace("_", "-")):
            shown.append(f"{name}={_HIDDEN}")
        else:
            shown.append(word)
    return shown


def _named(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--run {folder}: it is no folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(f"--run {folder}: the folder is not empty; name one that is, or leave --run out")
    return folder


def _under_home() -> Path:
    home = shelf.home()
    shelf.keep_below()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        folder = home / shelf.new_name(time.time_ns() // 1_000_000)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            time.sleep(0.001)
        else:
            return folder
