"""What `doctor` found, as text and as its JSON document."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hicachectl.checks.configuration import NAMES
from hicachectl.checks.result import Level, Result
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.config import StoreConfig
from hicachectl.views import palette
from hicachectl.views.table import cell, document, drawn

STYLES: dict[Level, str] = {
    Level.ok: palette.GOOD,
    Level.info: palette.INFO,
    Level.warning: palette.WARNING,
    Level.error: palette.ERROR,
}
Found = Sequence[tuple[str, Result]]


def as_json(scene: Scene, found: Found) -> str:
    """The one JSON document."""
    config = scene.config
    body: dict[str, Any] = {
        "python": scene.inside.python,
        "sglang": scene.inside.sglang,
        "mooncake": scene.inside.mooncake,
        "server": scene.server,
        "source": config.source.value if config is not None else None,
        "values": [{"name": name, **fields} for name, fields in _settings(config)] + _arguments(scene),
        "ignored": [{name: getattr(row, name) for name in ("name", "value", "origin", "why")} for row in config.ignored]
        if config is not None
        else [],
        "checks": [
            {
                "name": name,
                "level": result.level.value,
                "title": result.title,
                "facts": result.facts,
                "code": result.code or None,
                "next": result.next or None,
            }
            for name, result in found
        ],
    }
    return document("doctor", body)


def as_text(scene: Scene, found: Found, *, width: int | None, colour: bool) -> str:
    """The checks in a reader's order: what is wrong first, then every setting with its origin."""
    parts: list[RenderableType] = []
    for name, result in sorted(found, key=lambda row: list(Level).index(row[1].level), reverse=True):
        parts += _check(name, result)
    settings = [*_settings(scene.config), *((row["name"], row) for row in _arguments(scene))]
    if settings:
        parts += [
            Text(),
            cell("settings, and where each comes from", palette.HEADING),
            Padding(_table(settings), (0, 0, 0, 2)),
        ]
    return drawn(Group(*parts), width=width, colour=colour)


def _check(name: str, result: Result) -> list[RenderableType]:
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=max(len(level.value) for level in Level), no_wrap=True)
    line.add_column(width=NAME_WIDTH, no_wrap=True)
    line.add_column(overflow="fold")
    title = cell(f"{result.title} [{result.code}]" if result.code else result.title)
    line.add_row(cell(result.level.value, STYLES[result.level]), cell(name, palette.NAME), title)
    if result.next:
        line.add_row("", "", cell(f"Next: {result.next}"))
    if result.level in {Level.error, Level.warning}:
        for fact, value in result.facts.items():
            line.add_row("", "", cell(f"{fact}: {_plain(value)}", palette.FAINT))
    return [line]


NAME_WIDTH = 15


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_plain, value)) or "none"
    return str(value)


def _settings(config: StoreConfig | None) -> list[tuple[str, dict[str, Any]]]:
    if config is None:
        return []
    return [
        (name, {"value": value.value, "origin": value.origin, "remark": value.remark})
        for name in NAMES
        if (value := getattr(config, name)) is not None
    ]


def _arguments(scene: Scene) -> list[dict[str, Any]]:
    given = scene.arguments
    return (
        [{"name": name, "value": given[name], "origin": origin, "remark": ""} for name, origin in given.origins.items()]
        if scene.engine_known
        else []
    )


def _table(settings: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_column(overflow="fold", style=palette.FAINT)
    for name, fields in settings:
        remark = f" ({fields['remark']})" if fields["remark"] else ""
        rows.add_row(cell(name), cell(fields["value"]), cell(f"{fields['origin']}{remark}"))
    return rows
