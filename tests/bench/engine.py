"""The real engine with and without the tracers, alternated from request to request within one process.

Run alone: python -m tests.bench.engine [PAIRS]
"""

import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.pairs import Figure, quick, show

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "import sys; from hicachectl.cli import main; main()"
MODES = ("off", "ours", "held", "ten", "otel")
COUNTED, UNCOUNTED = 8, 4
"""Requests of a block in one mode, behind those that are not counted; `engine_script.py` says why."""
Row = dict[str, int]
ONE_CORE = {"OMP_NUM_THREADS": "1", "SGLANG_CPU_OMP_THREADS_BIND": str(max(os.sched_getaffinity(0)))}
"""Two threads that wait for each other at every step would measure what else the machine does."""


def play(pairs: int) -> list[dict[str, Row]]:
    """Blocks of eight requests in each mode: mode -> what they took together, in nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.jsonl"
        words = ["lab", "exec", "--", sys.executable, str(Path(__file__).with_name("engine_script.py")), str(out), str(pairs), *MODES]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "HICACHECTL_TRACE": str(Path(folder) / "run"), **ONE_CORE}
        done = subprocess.run([sys.executable, "-c", COMMAND, *words], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"the engine ended with {done.returncode}: {done.stderr[-2000:]}")
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        faults = [fault for path in (Path(folder) / "run").glob("ledger-*.json") for fault in json.loads(path.read_text())["faults"]]
        if faults:
            sys.exit(f"a hook point failed: {faults}")
    blocks: dict[str, dict[str, Row]] = {}
    for row in rows:
        block, _, turn = str(row.pop("block")).partition("-")
        if int(turn) >= UNCOUNTED:
            total = blocks.setdefault(block, {}).setdefault(str(row.pop("mode")), {})
            total |= {key: total.get(key, 0) + value for key, value in row.items()}
    return [block for block in blocks.values() if len(block) == len(MODES)]


def ratio(blocks: Sequence[dict[str, Row]], mode: str, key: str) -> tuple[float, float]:
    """Median of the paired ratios to the untraced request, and its standard error by resampling the pairs."""
    values = [block[mode][key] / block["off"][key] for block in blocks]
    choose = random.Random(5).choices
    spread = statistics.stdev(statistics.median(choose(values, k=len(values))) for _ in range(200))
    return statistics.median(values), spread


def slope(blocks: Sequence[dict[str, Row]], key: str) -> tuple[float, float]:
    """The ratio by the slope: what ten wrappers cost more than one, divided by nine, over the untraced time."""
    ten, error_ten = ratio(blocks, "ten", key)
    one, error_one = ratio(blocks, "ours", key)
    return 1 + (ten - one) / 9, (error_ten**2 + error_one**2) ** 0.5 / 9


def main() -> None:
    """Print the figures."""
    if importlib.util.find_spec("sglang") is None:
        print("SGLang is not installed beside this Python: the engine is not measured")
        return
    pairs = next((int(word) for word in sys.argv[1:] if word.isdigit()), 10 if quick() else 120)
    blocks = play(pairs)
    wall = statistics.median(block["off"]["wall"] for block in blocks) / (COUNTED * 1e6)
    figures = []
    for key, name, target in (("wall", "time of a request", 1.005), ("first", "time to its first token", 1.01), ("cpu", "CPU of the scheduler's thread", None), ("process", "CPU of the scheduler's process", None)):
        for mode, label in (("ours", "traced"), ("held", "recorded, and never written"), ("otel", "OTel SDK in the same hooks")):
            value, error = ratio(blocks, mode, key)
            figures.append(Figure(f"{name}, {label}, of untraced", value, target if mode == "ours" else None, " x", f"(+- {error:.4f})"))
        value, error = slope(blocks, key)
        figures.append(Figure("... by the slope from one to ten recordings", value, target, " x", f"(+- {error:.4f})"))
    print(f"{len(blocks)} blocks of {COUNTED} requests in each mode; an untraced request takes {wall:.1f} ms")
    show(figures)


if __name__ == "__main__":
    main()
