"""The catalogue of codes as text: the list, one page, the meanings of a number, and the JSON document."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from hicachectl.diagnosis.codes import LETTERS, Code

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hicachectl.mooncake.errors import ErrorRow

SCHEMA = "hicachectl/code/1"

_PIPED_WIDTH = 400
"""Wide enough that no row of the list breaks: a row a line, for grep."""

_STYLE = {"error": "bold red", "warning": "yellow", "info": "dim"}


def listing(rows: Sequence[Code], *, width: int | None, colour: bool) -> str:
    """ROWS as a table, by letter; WIDTH is the terminal's, None when there is none and a row must stay one line."""
    from rich.table import Table  # noqa: PLC0415 - here and below: a page in a pipe, or JSON, draws nothing
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("CODE", no_wrap=True)
    table.add_column("LEVEL", no_wrap=True)
    table.add_column("MEANING", ratio=1 if width else None)
    table.add_column("PROVOKED", no_wrap=True)
    letter = ""
    for row in rows:
        if width and row.letter != letter:
            table.add_row(Text(row.letter, "bold"), "", Text(LETTERS[row.letter], "bold"), "")
        letter = row.letter
        table.add_row(row.id, Text(row.level, _STYLE[row.level]), row.plain, row.detected)
    return _drawn(table, width, colour=colour)


def page(markdown: str, *, width: int | None, colour: bool) -> str:
    """A page: drawn for a terminal, as it is where there is none."""
    if width is None:
        return markdown
    from rich.markdown import Markdown  # noqa: PLC0415

    return _drawn(Markdown(markdown), width, colour=colour)


def meanings(rows: "Sequence[ErrorRow]") -> str:
    """ROWS, the meanings of a number or a name, as a Markdown page, one section for each layer."""
    numbers = " or ".join(dict.fromkeys(str(row.number) for row in rows))
    layers = {row.layer for row in rows}
    text = [f"# {numbers}: {' or '.join(dict.fromkeys(row.name for row in rows))}"]
    if len(rows) > 1 and len(layers) > 1:
        text.append(
            "Layers of Mooncake share numbers: ask first who returned it. Python's MooncakeDistributedStore returns the Store's."
        )
    for row in rows:
        text += [
            f"## {row.layer.value} {row.number}: {row.name}",
            row.meaning,
            f"**Check:** {row.check}",
            f"*{row.kind.value} - {_releases(row)}*",
        ]
    return "\n\n".join(text) + "\n"


def document(asked: str | None, rows: Sequence[Code], errors: "Sequence[ErrorRow]", pages: Mapping[str, str]) -> str:
    """The JSON document: what was asked, the rows of the catalogue (with their page where PAGES has it), the meanings."""
    import json  # noqa: PLC0415 - a page in a pipe needs none of it

    body = {
        "schema": SCHEMA,
        "asked": asked,
        "codes": [_code(row) | ({"page": pages[row.id]} if row.id in pages else {}) for row in rows],
        "errors": [_error(row) for row in errors],
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _code(row: Code) -> dict[str, Any]:
    return {
        "code": row.id,
        "level": row.level,
        "level_if_serving": row.level_if_serving,
        "title": row.plain,
        "args": list(row.fields),
        "needs": list(row.needs),
        "next": row.next,
        "detected": row.detected,
        "versions": row.versions,
    }


def _error(row: "ErrorRow") -> dict[str, Any]:
    return {
        "layer": row.layer.value,
        "number": row.number,
        "name": row.name,
        "meaning": row.meaning,
        "check": row.check,
        "kind": row.kind.value,
        "since": row.since,
        "until": row.until or None,
    }


def _releases(row: "ErrorRow") -> str:
    return f"Mooncake {row.since} until {row.until}" if row.until else f"Mooncake {row.since} and later"


def _drawn(what: "RenderableType", width: int | None, *, colour: bool) -> str:
    """WHAT as lines without trailing blanks."""
    from rich.console import Console  # noqa: PLC0415

    out = StringIO()
    console = Console(
        file=out,
        width=width or _PIPED_WIDTH,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(what)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
