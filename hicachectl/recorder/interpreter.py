"""Which Python will COMMAND use, and does SGLang find our plugin there."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

PLUGIN = "hicachectl"
GROUP = "sglang.srt.plugins"
_PATIENCE_S = 30.0
_MARK = "hicachectl-plugins:"
_ASK = f"""
try:
    from importlib.metadata import entry_points
except ImportError:
    raise SystemExit(9)
found = entry_points()
found = found.select(group={GROUP!r}) if hasattr(found, "select") else found.get({GROUP!r}, ())
print({_MARK!r} + ",".join(sorted({{one.name for one in found}})))
"""
_PYTHON = re.compile(r"(python|pypy)\d*(\.\d+)*")
_KEPT_FLAGS = {"-I", "-E", "-s", "-S", "-P"}
"""Options of Python that change where it looks for packages."""


class Plugin(Enum):
    """What SGLang under COMMAND will do with our plugin."""

    present = "it is loaded"
    absent = "it is not installed there"
    excluded = "SGLANG_PLUGINS leaves it out"
    unknown = "it cannot be told which Python COMMAND uses"


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs another one: options that take a value, and words of its own before the other command."""

    name: str
    valued: frozenset[str] = frozenset()
    words: int = 0


WRAPPERS: tuple[Wrapper, ...] = (
    Wrapper("nohup"),
    Wrapper("setsid"),
    Wrapper("time", frozenset({"-f", "-o"})),
    Wrapper("nice", frozenset({"-n"})),
    Wrapper("ionice", frozenset({"-c", "-n"})),
    Wrapper("stdbuf", frozenset({"-i", "-o", "-e"})),
    Wrapper("timeout", frozenset({"-k", "-s"}), words=1),
    Wrapper("taskset", words=1),
    Wrapper("chrt", words=1),
    Wrapper("numactl", frozenset({"-i", "-N", "-C", "-m", "-p", "-P", "-l"} - {"-l"})),
    Wrapper("env", frozenset({"-u", "-C"})),
)
"""Wrappers that leave the environment alone (coreutils and util-linux); sudo and containers do not, and are not here."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, the flags that COMMAND gives it, and the environment in which it will run."""

    path: str
    flags: tuple[str, ...]
    env: Mapping[str, str]


def of(command: Sequence[str], env: Mapping[str, str]) -> Interpreter | None:
    """The Python that COMMAND runs in ENV, looked for behind wrappers, `hicachectl lab exec` and shebangs; None: cannot tell."""
    for _ in range(8):
        if not command:
            return None
        name = Path(command[0]).name
        if _PYTHON.fullmatch(name):
            return _python(command, env)
        inner = _behind(name, command, env)
        if inner is None:
            return _by_shebang(command, env)
        command, env = inner
    return None


def plugin(found: Interpreter | None) -> Plugin:
    """Ask FOUND, by running it, whether SGLang will load our plugin."""
    if found is None:
        return Plugin.unknown
    try:
        done = subprocess.run(
            [found.path, *found.flags, "-c", _ASK],
            env=dict(found.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Plugin.unknown
    names = [line.removeprefix(_MARK).split(",") for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not names:
        return Plugin.unknown
    if PLUGIN not in names[-1]:
        return Plugin.absent
    # SGLang loads every plugin where the variable is empty (srt/plugins/__init__.py, load_plugins_by_group).
    allowed = {name.strip() for name in found.env.get("SGLANG_PLUGINS", "").split(",") if name.strip()}
    return Plugin.excluded if allowed and PLUGIN not in allowed else Plugin.present


def _python(command: Sequence[str], env: Mapping[str, str]) -> Interpreter | None:
    path = shutil.which(command[0], path=env.get("PATH"))
    if path is None:
        return None
    flags = []
    for word in command[1:]:
        if not word.startswith("-") or word in ("-c", "-m", "-"):
            break
        if word in _KEPT_FLAGS:
            flags.append(word)
    return Interpreter(path, tuple(flags), env)


def _behind(
    name: str, command: Sequence[str], env: Mapping[str, str]
) -> tuple[Sequence[str], Mapping[str, str]] | None:
    """What a wrapper runs and in which environment; None where COMMAND is no wrapper."""
    if name == "hicachectl":
        inner = _behind_ours(command)
        return None if inner is None else (inner, env)
    row = next((row for row in WRAPPERS if row.name == name), None)
    if row is None:
        return None
    rest = _without_options(command[1:], row.valued)[row.words :]
    return _with_assignments(rest, env) if name == "env" else (rest, env)


def _behind_ours(command: Sequence[str]) -> Sequence[str] | None:
    """The command of `hicachectl lab exec` and `hicachectl trace`; other commands of ours run in their own Python."""
    for words, valued in ((("lab", "exec"), {"--segment"}), (("trace",), {"--run", "--otlp"})):
        if tuple(command[1 : 1 + len(words)]) == words:
            return _without_options(command[1 + len(words) :], valued)
    return None


def _without_options(words: Sequence[str], valued: frozenset[str] | set[str]) -> Sequence[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return words[at + 1 :]
        at += 2 if words[at] in valued else 1
    return words[at:]


def _with_assignments(words: Sequence[str], env: Mapping[str, str]) -> tuple[Sequence[str], Mapping[str, str]]:
    changed = dict(env)
    at = 0
    while at < len(words) and "=" in words[at]:
        key, _, value = words[at].partition("=")
        changed[key] = value
        at += 1
    return words[at:], changed


def _by_shebang(command: Sequence[str], env: Mapping[str, str]) -> Interpreter | None:
    path = shutil.which(command[0], path=env.get("PATH"))
    try:
        with Path(path or os.devnull).open("rb") as stream:
            first, second = stream.readline(4096), stream.readline(4096)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = _words(first[2:])
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    if words == ["/bin/sh"] and second.startswith(
        b"'''exec' "
    ):  # an installer's way round the kernel's limit on length
        words = _words(second.removeprefix(b"'''exec' "))[:1]
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    return _python(words, env)


def _words(line: bytes) -> list[str]:
    try:
        return shlex.split(line.decode(errors="surrogateescape"))
    except ValueError:
        return []
