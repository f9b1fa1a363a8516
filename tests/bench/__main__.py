"""Every benchmark, each in a process of its own: python -m tests.bench [--quick]. Ends with 1 where a target is not reached."""

import subprocess
import sys
from pathlib import Path

from tests.bench.pairs import machine

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "record": "What a call costs the engine",
    "write": "What the writer does",
    "start": "Start of an engine, start of a command",
    "read": "Reading",
    "columns": "A column store",
    "engine": "The real engine, traced and untraced",
}


def main() -> int:
    """Run all; whether a target was missed."""
    print(machine(), flush=True)
    missed = False
    for name, title in PARTS.items():
        print(f"\n{title} (python -m tests.bench.{name})", flush=True)
        with subprocess.Popen([sys.executable, "-m", f"tests.bench.{name}", *sys.argv[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                missed |= "NOT REACHED" in line
        missed |= process.returncode != 0
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
