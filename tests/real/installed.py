"""Which packages and programs a real test needs beside this Python."""

import filecmp
import importlib.util
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import pytest

from hicachectl.lab import store as lab_store

OTHER_MASTER = "HICACHECTL_OTHER_MASTER"


def needs(*packages: str) -> None:
    """Skip where this Python lacks a package; `make test` runs in one that has them all."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed beside this Python")


def only(sglang: str) -> None:
    """Skip where this Python has another release of SGLang: the fault is of that one alone."""
    if metadata.version("sglang") != sglang:
        pytest.skip(f"a fault of SGLang {sglang}")


def program(name: str) -> str:
    """Path of a program that `make env` puts beside this Python; skips the test where it is not there, and fails it under `.ci/run`."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    return found or _lacking(f"there is no program {name}: make env unpacks Debian's, where apt-get finds it")


def other_master() -> str:
    """Path of a `mooncake_master` of another release: of the other pair's environment, or named by HICACHECTL_OTHER_MASTER.

    Skips the test where there is none, and fails it under `.ci/run`, which sets up every pair before it begins.
    """
    if given := os.environ.get(OTHER_MASTER):
        return given
    cache = os.environ.get("HICACHECTL_ENVS") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hicachectl" / "envs"
    own = lab_store.master_binary()
    for path in sorted(Path(cache).glob("base-*/lib/python*/site-packages/mooncake/mooncake_master")):
        if not filecmp.cmp(path, own, shallow=False):
            return str(path)
    return _lacking(f"no Mooncake of another release is at hand: set up the other pair (make env SGLANG=...), or name its master in {OTHER_MASTER}")


def _lacking(why: str) -> NoReturn:
    """Skip, or fail where what a test needs has to be there."""
    (pytest.fail if os.environ.get("HICACHECTL_CI") == "1" else pytest.skip)(why)
