"""What the tracers add to an engine's start, and how long a command takes to begin.

Run alone: python -m tests.bench.start
"""

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.bench.pairs import Figure, middle, quick, show

ROOT = Path(__file__).resolve().parents[2]
LOADING = """
import json, sys, time
sys.path.insert(0, ROOT)
began = time.thread_time()
import sglang
yardstick = time.thread_time() - began
began = time.thread_time()
from tracers.plugin import register
register()
print(json.dumps({"plugin": time.thread_time() - began, "sglang": yardstick}))
"""
"""The plugin is loaded where SGLang is, so what both need is there already."""
HOOKING = """
import json, sys, time
sys.path.insert(0, ROOT)
spent = [0.0]
def timed(function):
    def inner(*args, **kwargs):
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[0] += time.thread_time() - began
    return inner
import sglang
from tracers import install
install.Installer.arrived = timed(install.Installer.arrived)
from tracers.plugin import register
register()
began = time.thread_time()
from sglang.srt.managers import scheduler, cache_controller
from sglang.srt.mem_cache import hiradix_cache
print(json.dumps({"hooking": spent[0], "imports": time.thread_time() - began}))
import os; os._exit(0)
"""
MINIMAL = """
import typer
app = typer.Typer()
@app.command()
def main(name: str = "x") -> None:
    print(name)
app()
"""
COMMAND = "import sys; from hicachectl.cli import main; main()"
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
"""Python keeps what it has compiled, as an installed package has it: else ours would be compiled each time, and what it is measured against would not."""


def seconds(words: list[str], env: Mapping[str, str]) -> float:
    """CPU seconds of a process from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT), **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def told(script: str, env: Mapping[str, str]) -> dict[str, float]:
    """What a script prints as its last line."""
    text = f"ROOT = {str(ROOT)!r}\n{script}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HICACHECTL_")}
    done = subprocess.run([sys.executable, "-c", text], env={**clean, **COMPILED, "SGLANG_USE_CPU_ENGINE": "1", **env}, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def plugin(folder: Path) -> list[Figure]:
    """Loading the plugin as a share of `import sglang`, off and on, and putting the wrappers on."""
    if importlib.util.find_spec("sglang") is None:
        print("SGLang is not installed beside this Python: the plugin's load is not measured")
        return []
    rounds = 1 if quick() else 5
    on = {"HICACHECTL_TRACE": str(folder / "run"), "TRITON_INTERPRET": "1"}
    off = [told(LOADING, {}) for _ in range(rounds)]
    loaded = [told(LOADING, on) for _ in range(rounds)]
    hooked = [told(HOOKING, on) for _ in range(rounds)]
    sglang = sorted(each["sglang"] for each in (*off, *loaded))[rounds]
    best = {"off": min(each["plugin"] / each["sglang"] for each in off), "on": min(each["plugin"] / each["sglang"] for each in loaded)}
    wrappers = min(each["hooking"] for each in hooked)
    return [
        Figure("loading the plugin, off, of `import sglang`", 100 * best["off"], 0.3, " %", f"({sglang:.1f} s CPU)"),
        Figure("loading the plugin, on, of `import sglang`", 100 * best["on"], 2, " %"),
        Figure("... with the wrappers of every module", 100 * (best["on"] + wrappers / sglang), 2, " %", f"({wrappers * 1000:.0f} ms)"),
    ]


def commands(folder: Path) -> list[Figure]:
    """The start of a command as a ratio to a minimal Typer app, both run to their end."""
    (folder / "minimal.py").write_text(MINIMAL)
    sample = next(path.parent for path in (ROOT / "tests" / "samples").rglob("run.json"))
    yardsticks = {"command": [sys.executable, str(folder / "minimal.py")], "help": [sys.executable, str(folder / "minimal.py"), "--help"]}
    cases = {
        "runs (an empty home)": (["runs"], "command", 1.15),
        "code R12": (["code", "R12"], "command", 1.15),
        "--version": (["--version"], "command", 1.15),
        "--help": (["--help"], "help", 1.15),
        "explain of a small recording, all work included": (["explain", str(sample)], "command", None),
    }
    figures = []
    env = {"HICACHECTL_HOME": str(folder / "home"), **COMPILED}
    for name, (words, against, target) in cases.items():
        found = []
        seconds([sys.executable, "-c", COMMAND, *words], env)
        seconds(yardsticks[against], env)
        for _ in range(2 if quick() else 15):
            before = seconds(yardsticks[against], env)
            took = seconds([sys.executable, "-c", COMMAND, *words], env)
            found.append(2 * took / (before + seconds(yardsticks[against], env)))
        median, spread = middle(found)
        figures.append(Figure(f"hicachectl {name}, of a minimal Typer app's {against}", median, target, " x", spread))
    return figures


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        show(commands(Path(name)))
        show(plugin(Path(name)))


if __name__ == "__main__":
    main()
