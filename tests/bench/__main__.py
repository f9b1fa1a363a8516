"""Every benchmark, each in a process of its own: python -m tests.bench [--quick] [--write] [PART...]. Ends with 1 where a target is not reached.

With --write each part puts what it prints into docs/cost.md, so that the page holds nothing but what was measured.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.bench.pairs import machine

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cost.md"
OPTION = re.compile(r"--quick|--write|--columns=\d+|\d+")
PARTS = {
    "record": "What a call costs the engine",
    "write": "What the writer does",
    "start": "Start of an engine, start of a command",
    "read": "Reading",
    "probe": "A probe of the store",
    "keys": "Page keys",
    "columns": "A column store",
    "engine": "The real engine, traced and untraced",
}


def main() -> int:
    """Run all, or the parts that are named; whether a target was missed."""
    words = sys.argv[1:]
    named = [word for word in words if word in PARTS]
    strange = [word for word in words if word not in PARTS and not OPTION.fullmatch(word)]
    if strange:
        # A slip of the keyboard must not start everything, which takes an hour.
        sys.stderr.write(f"{strange[0]}: expected {', '.join(PARTS)}, --quick, --write, --columns=SPANS or a number, which the parts read and engine take\n")
        return 2
    options = [word for word in words if word not in PARTS and word != "--write"]
    print(machine(), flush=True)
    missed = False
    for name in named or PARTS:
        print(f"\n{PARTS[name]} (python -m tests.bench.{name})", flush=True)
        where, lines, code = machine(), [], 0
        with subprocess.Popen([sys.executable, "-m", f"tests.bench.{name}", *options], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
            code = process.wait()
        missed |= bool(code) or any("NOT REACHED" in line for line in lines)
        if "--write" in words and not code:
            PAGE.write_text(with_figures(PAGE.read_text(), name, where, lines))
    return int(missed)


def with_figures(page: str, name: str, where: str, lines: list[str]) -> str:
    """PAGE with what the part NAME printed, and what it was measured on, between its marks."""
    begin, end = f"<!-- figures of {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        sys.exit(f"{PAGE} has no place for the figures of {name}")
    return f"{before}{begin}{where}\n\n```text\n{''.join(lines)}```\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    sys.exit(main())
