"""`demo` as JSON and as text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from hicachectl.exits import one_line
from hicachectl.lab.showing import Shown
from hicachectl.model.journey import RUNGS
from hicachectl.views import palette
from hicachectl.views.judged import request_row
from hicachectl.views.table import document, drawn


def as_json(run: Path, rows: Sequence[Shown]) -> str:
    """The document `hicachectl/demo/1`."""
    return document("demo", {"run": str(run), "scenarios": [_row(row) for row in rows]})


def _row(row: Shown) -> dict[str, Any]:
    shown = request_row(row.verdict) if row.verdict is not None else {}
    return {
        "name": row.scenario.name,
        "rid": row.scenario.rid,
        "ladder": shown.get("ladder"),
        "tokens": shown.get("tokens"),
        "writers": shown.get("writers"),
        "verdict": shown.get("verdict"),
        "as_expected": row.as_expected,
        "differs": list(row.differs),
    }


def as_text(run: Path, rows: Sequence[Shown], *, width: int | None, colour: bool) -> str:
    """One verdict a scenario, and where to look next."""
    parts: list[RenderableType] = []
    for number, row in enumerate(rows, 1):
        mark = ("as expected", palette.GOOD) if row.as_expected else ("NOT as expected", palette.ERROR)
        parts.append(Text.assemble(f"{number}. ", (row.scenario.name, palette.HEADING), "  ", mark))
        parts.append(Text(f"   {row.scenario.says}", palette.FAINT))
        if row.verdict is not None:
            ladder = Text("   ")
            for name in RUNGS:
                state = row.verdict.ladder[name].state
                ladder.append(f"{name} ")
                ladder.append(f"{state}  ", palette.RUNGS.get(state, ""))
            parts += [ladder, Text(f"   verdict: {one_line(row.verdict.sentence)}")]
        parts += [Text(f"   {difference}", palette.ERROR) for difference in row.differs]
        parts.append(Text(""))
    parts.append(Text(f"recording: {run}\nread it:   hicachectl explain {run}"))
    return drawn(Group(*parts), width=width, colour=colour)
