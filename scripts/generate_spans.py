"""Writes docs/spans.md from the vocabulary and the hook points; `--check` says whether it is up to date."""  # noqa: INP001

import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generated import put

from tracers import vocabulary as v
from tracers.points import ALL

PAGE = Path(__file__).resolve().parent.parent / "docs" / "spans.md"


def page() -> str:
    """The page as it should be."""
    by_span = defaultdict(list)
    for point in ALL:
        if point.span:
            by_span[point.span].append(point)
    lines = [
        "# Spans",
        "",
        "Generated from `tracers/vocabulary.py` and `tracers/points/`; do not edit. Every span also carries `thread.id` and `thread.name`.",
        "The trace id of a request is the first 16 bytes of SHA-256 of its request id; where SGLang traces the request itself (`--enable-trace`), its spans",
        "have SGLang's trace id and hang under SGLang's span. Work for no request has its process's trace.",
        "",
        "## Resource",
        "",
        "| attribute | meaning |",
        "|---|---|",
        *(f"| `{key}` | {meaning} |" for key, meaning in v.RESOURCE.items()),
        "",
        "## Spans",
        "",
        "| span | says | attributes |",
        "|---|---|---|",
    ]
    for name, meaning in v.SPANS.items():
        keys = dict.fromkeys(key for point in by_span[name] for key in point.attributes if key != v.LATE)
        lines.append(f"| `{name}` | {meaning} | {', '.join(f'`{key}`' for key in keys)} |")
    lines += ["", "## Attributes", "", "| attribute | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {kind} | {unit} | {meaning} |" for key, (kind, unit, meaning) in v.ATTRIBUTES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(put(PAGE, page()))
