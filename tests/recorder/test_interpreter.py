"""Which Python COMMAND uses, and whether the plugin is there."""

import os
import stat
import sys
from pathlib import Path

import pytest
from invoke import plugin_site

from hicachectl.recorder import interpreter
from hicachectl.recorder.interpreter import Interpreter, Plugin


def script(path: Path, text: str) -> str:
    """An executable file."""
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH holds a python3 and a few wrappers of ours."""
    (tmp_path / "python3").symlink_to(sys.executable)
    for name in ("env", "nice", "timeout", "taskset", "hicachectl"):
        script(tmp_path / name, "#!/bin/sh\n")
    return {"PATH": str(tmp_path)}


@pytest.mark.parametrize(
    "words",
    [
        "python3 -m sglang.launch_server --port 1",
        "env A=1 B=2 python3 run.py",
        "env -u X python3",
        "nice -n 5 python3 run.py",
        "timeout -k 5 60 python3 run.py",
        "taskset -c 0,1 nice python3",
        "hicachectl lab exec -- python3 run.py",
        "hicachectl lab exec --segment 0 python3 run.py",
        "hicachectl trace --run x -- env A=1 hicachectl lab exec -- python3 run.py",
    ],
)
def test_the_python_behind_wrappers_is_found(words: str, env: dict[str, str], tmp_path: Path) -> None:
    """Wrappers of the system and of ours are looked behind, as often as they nest."""
    found = interpreter.of(words.split(), env)
    assert found is not None
    assert found.path == str(tmp_path / "python3")


def test_flags_that_change_the_search_path_are_kept(env: dict[str, str]) -> None:
    """`python -I -u run.py` looks for plugins as `python -I` does."""
    found = interpreter.of(["python3", "-I", "-u", "run.py", "-E"], env)
    assert found is not None
    assert found.flags == ("-I",)


def test_assignments_of_env_hold_for_the_plugin_check(env: dict[str, str]) -> None:
    """`env SGLANG_PLUGINS=other python` excludes the plugin as the variable itself does."""
    found = interpreter.of(["env", "SGLANG_PLUGINS=other", "python3"], env)
    assert found is not None
    assert found.env["SGLANG_PLUGINS"] == "other"


@pytest.mark.parametrize(
    "first", ["#!{python} -s\n", "#!/usr/bin/env python3\n", "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n"]
)
def test_a_script_names_its_python_in_its_first_lines(first: str, env: dict[str, str], tmp_path: Path) -> None:
    """Shebangs, those through env, and the form that installers write for long paths."""
    python = tmp_path / "python3"
    file = script(tmp_path / "serve", first.format(python=python))
    found = interpreter.of([file], env)
    assert found is not None
    assert found.path == str(python)


@pytest.mark.parametrize(
    "words", ["sh -c x", "/absent/python3", "serve", "unknown x", "env", "docker run image python3"]
)
def test_what_cannot_be_told_is_left_open(words: str, env: dict[str, str], tmp_path: Path) -> None:
    """A shell, a container, a binary: no guess."""
    script(tmp_path / "serve", "#!/bin/sh\nexec python3\n")
    assert interpreter.of(words.split(), env) is None
    assert interpreter.plugin(None) is Plugin.unknown


def test_the_plugin_is_looked_for_in_that_python(tmp_path: Path) -> None:
    """Present, absent, and excluded by SGLANG_PLUGINS, as SGLang itself reads it."""
    with_it = {**os.environ, "PYTHONPATH": str(plugin_site(tmp_path / "a"))}
    without = {**os.environ, "PYTHONPATH": str(plugin_site(tmp_path / "b", ["other"]))}
    ask = [
        (with_it, Plugin.present),
        (with_it | {"SGLANG_PLUGINS": ""}, Plugin.present),
        (with_it | {"SGLANG_PLUGINS": "x, hicachectl"}, Plugin.present),
        (with_it | {"SGLANG_PLUGINS": "x"}, Plugin.excluded),
    ]
    for env, state in ask:
        assert interpreter.plugin(Interpreter(sys.executable, (), env)) is state
    # Isolated, this Python does not see PYTHONPATH; what it has installed itself decides.
    isolated = interpreter.plugin(Interpreter(sys.executable, ("-I",), {**with_it, "PYTHONPATH": ""}))
    assert interpreter.plugin(Interpreter(sys.executable, ("-I",), with_it)) is isolated
    if isolated is Plugin.absent:
        assert interpreter.plugin(Interpreter(sys.executable, (), without)) is Plugin.absent


def test_a_python_that_does_not_run_is_left_open(tmp_path: Path) -> None:
    """A broken interpreter will speak for itself when COMMAND starts."""
    broken = script(tmp_path / "python3", "#!/bin/sh\nexit 1\n")
    assert interpreter.plugin(Interpreter(broken, (), {})) is Plugin.unknown
