"""Writes the table of docs/metrics.md from the vocabulary; `--check` says whether it is up to date."""  # noqa: INP001

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generated import put

from hicachectl.recorder.scrape import prometheus_name
from tracers import vocabulary as v

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
BEGIN, END = "<!-- generated from tracers/vocabulary.py: do not edit -->\n", "<!-- end of what is generated -->\n"


def tables() -> str:
    """The tables as they should be."""
    lines = [
        "| metric | for Prometheus | kind | unit | counts | attributes | sum over ranks | sent by an engine |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (kind, unit, meaning, ranks, attributes) in v.METRICS.items():
        keys = ", ".join(f"`{key}`" for key in attributes)
        way = "no: it needs the diagnosis" if name in v.BY_DIAGNOSIS else "yes"
        lines.append(f"| `{name}` | `{prometheus_name(name)}` | {kind} | {unit} | {meaning} | {keys} | {ranks} | {way} |")
    lines += ["", "| attribute | meaning |", "|---|---|", *(f"| `{key}` | {meaning} |" for key, meaning in v.DIMENSIONS.items())]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with its tables as they should be."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return head + BEGIN + tables() + END + rest.partition(END)[2]


if __name__ == "__main__":
    sys.exit(put(PAGE, page()))
