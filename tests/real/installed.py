"""Which packages and programs a real test needs beside this Python."""

import importlib.util
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest


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
    if found is None:
        why = f"there is no program {name}: make env unpacks Debian's, where apt-get finds it"
        (pytest.fail if os.environ.get("HICACHECTL_CI") == "1" else pytest.skip)(why)
    return found
