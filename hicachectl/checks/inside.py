"""What the Python that would run the engine has, asked in a process of its own (`look_inside`)."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hicachectl.exits import UnreachableError, one_line

_SCRIPT = Path(__file__).with_name("look_inside.py")
FACTS_TIMEOUT_S = 60.0
PARSE_TIMEOUT_S = 180.0
WHEELS = ("mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine-cuda13")


@dataclass(frozen=True, slots=True)
class Inside:
    """A Python, its packages, and its Mooncake client."""

    python: str
    python_version: str
    packages: Mapping[str, str]
    plugins: tuple[str, ...]
    mooncake_error: str
    """Why the client library cannot be loaded, empty where it can."""
    missing_libraries: tuple[str, ...]
    group_ids: bool
    setup_signature: str

    @property
    def sglang(self) -> str | None:
        """The release of SGLang, None where there is none."""
        return self.packages.get("sglang")

    @property
    def mooncake(self) -> str | None:
        """The release of the Mooncake client, None where no wheel of it is installed."""
        return next((self.packages[wheel] for wheel in WHEELS if wheel in self.packages), None)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What SGLang's own parser made of a command line: values, or the sentence with which it refused, or why it could not be asked."""

    values: Mapping[str, Any] | None = None
    refused: str = ""
    unknown: str = ""


def look(python: str, environment: Mapping[str, str]) -> Inside:
    """Ask PYTHON what it has; UnreachableError where it cannot be run."""
    answer, said = _run([python, str(_SCRIPT)], environment, FACTS_TIMEOUT_S)
    if "packages" not in answer:
        raise UnreachableError(f"{python} cannot be asked for its packages: {answer.get('error') or _last(said)}")
    mooncake = answer["mooncake"]
    return Inside(
        python=answer["python"],
        python_version=answer["python_version"],
        packages=answer["packages"],
        plugins=tuple(answer["plugins"]),
        mooncake_error=mooncake["error"],
        missing_libraries=tuple(mooncake["missing_libraries"]),
        group_ids=mooncake.get("group_ids", False),
        setup_signature=mooncake.get("setup", ""),
    )


def parse(python: str, environment: Mapping[str, str], words: Sequence[str]) -> Parsed:
    """Let SGLang's own parser read WORDS; this imports SGLang and takes seconds."""
    try:
        answer, said = _run([python, str(_SCRIPT), "--", *words], environment, PARSE_TIMEOUT_S)
    except UnreachableError as error:
        return Parsed(unknown=str(error))
    if answer.get("refused"):
        return Parsed(refused=_last(said))
    if "arguments" not in answer:
        return Parsed(unknown=one_line(str(answer.get("error") or _last(said))))
    return Parsed(values=answer["arguments"])


def _run(words: list[str], environment: Mapping[str, str], timeout: float) -> tuple[dict[str, Any], str]:
    try:
        done = subprocess.run(
            words,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            cwd=os.curdir,
        )
        answer = json.loads(done.stdout or "{}")
    except OSError as error:
        raise UnreachableError(f"cannot start {words[0]}: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise UnreachableError(f"{words[0]} did not answer within {timeout:g} s") from error
    except ValueError as error:
        raise UnreachableError(f"{words[0]} did not answer as it should: {_last(done.stderr)}") from error
    return answer, done.stderr


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else "it said nothing"
