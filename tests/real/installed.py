"""Which packages a real test needs beside this Python."""

import importlib.util
from importlib import metadata

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
