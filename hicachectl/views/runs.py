"""The list of recordings, as a table and as a JSON document."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from rich.text import Text

from hicachectl.store import Run
from hicachectl.store.outline import Outline
from hicachectl.views import palette
from hicachectl.views.table import Column, age, document, size, table


@dataclass(frozen=True, slots=True)
class Listed:
    """One recording: where it lies, what it holds (None where it cannot be read), and whether it is being written."""

    run: Run
    outline: Outline | None
    live: bool


COLUMNS = (
    Column("RECORDING"),
    Column("AGE", number=True),
    Column("SIZE", number=True),
    Column("SGLANG"),
    Column("MOONCAKE"),
    Column("REQUESTS", number=True),
    Column("COMPLETE"),
    Column("COMMAND", grows=True),
)


def listing(rows: Sequence[Listed], now_s: float, *, width: int | None, colour: bool) -> str:
    """ROWS as a table, the newest last."""
    return table(COLUMNS, (_row(row, now_s) for row in rows), width=width, colour=colour)


def listing_document(rows: Sequence[Listed], removed: Sequence[Path], home: Path, limit: int, now_s: float) -> str:
    """ROWS, and what was REMOVED, as the JSON document."""
    return document(
        "runs",
        {
            "home": str(home),
            "bytes": sum(row.run.bytes for row in rows),
            "limit_bytes": limit,
            "removed": [str(path) for path in removed],
            "runs": [_entry(row, now_s) for row in rows],
        },
    )


def _row(row: Listed, now_s: float) -> list[object]:
    run, found = row.run, row.outline
    start = [run.name, age(now_s - run.created_ms / 1000), size(run.bytes)]
    if found is None:
        return [*start, None, None, None, Text("unreadable", palette.ERROR), ""]
    command = shlex.join(found.command)
    return [*start, _joined(found.sglang), _joined(found.mooncake), found.requests, _complete(row), command]


def _complete(row: Listed) -> Text:
    if row.live:
        return Text("running", palette.INFO)
    if row.outline is not None and row.outline.incomplete:
        return Text("no", palette.WARNING)
    return Text("yes", palette.GOOD)


def _entry(row: Listed, now_s: float) -> dict[str, object]:
    run, found = row.run, row.outline
    created = datetime.fromtimestamp(run.created_ms / 1000, timezone.utc)
    return {
        "run": str(run.path),
        "name": run.name,
        "created": created.isoformat(timespec="milliseconds"),
        "age_s": round(max(0.0, now_s - run.created_ms / 1000), 3),
        "bytes": run.bytes,
        "readable": found is not None,
        "running": row.live,
        "complete": found is not None and not found.incomplete and not row.live,
        "incomplete": found.incomplete if found else [],
        "sglang": found.sglang if found else [],
        "mooncake": found.mooncake if found else [],
        "engines": found.engines if found else [],
        "requests": found.requests if found else None,
        "spans": found.spans if found else None,
        "command": found.command if found else [],
    }


def _joined(names: Sequence[str]) -> str | None:
    return ", ".join(names) or None
