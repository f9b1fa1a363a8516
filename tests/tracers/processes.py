"""Runs Pythons of their own in which the plugin is loaded beside something that looks like SGLang's scheduler."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import invoke

SCHEDULER = """
class Scheduler:
    def __init__(self):
        self.flushed = 0

    def flush_cache(self):
        self.flushed += 1
        return True
"""
BEGIN = """
import os, sys, threading, time
from tracers.plugin import register
register()
from sglang.srt.managers.scheduler import Scheduler
scheduler = Scheduler.__new__(Scheduler)
scheduler.flushed = 0
"""
"""How a script of a test begins; `scheduler.flush_cache()` makes one span."""


def environment(folder: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which `sglang` is a module made in FOLDER, and nothing of ours is asked for, with ENV on top."""
    package = folder / "site" / "sglang" / "srt" / "managers"
    if not package.exists():
        package.mkdir(parents=True)
        for each in (package, package.parent, package.parent.parent):
            (each / "__init__.py").write_text("")
        (package / "scheduler.py").write_text(SCHEDULER)
    clean = {name: value for name, value in invoke.environment().items() if not name.startswith("HICACHECTL_")}
    path = os.pathsep.join([str(folder / "site"), clean["PYTHONPATH"]])
    return {**clean, "PYTHONPATH": path, **(env or {})}


def python(folder: Path, script: str, *, env: Mapping[str, str] | None = None, begin: str = BEGIN) -> subprocess.CompletedProcess[str]:
    """Run SCRIPT after BEGIN in a Python of its own."""
    text = begin + textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", text], env=environment(folder, env), capture_output=True, text=True, timeout=120, check=False)


def recorded(folder: Path, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run SCRIPT with the tracers on, into FOLDER/run."""
    return python(folder, script, env={"HICACHECTL_TRACE": str(folder / "run"), **env})
