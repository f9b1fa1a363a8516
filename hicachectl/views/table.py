"""Tables and amounts as text; every string from outside is made harmless to a terminal on its way in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

from hicachectl.exits import one_line
from hicachectl.views import palette
from hicachectl.views.machine import document, indented

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = ["Column", "age", "cell", "document", "drawn", "indented", "size", "span_of_time", "table"]
PIPED_WIDTH = 1000
"""Wide enough that no row breaks where there is no terminal: a row a line."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: heading, and whether its cells are numbers; `grows` takes what width is left, the others do not wrap."""

    heading: str
    number: bool = False
    grows: bool = False


def cell(value: Any, style: str = "") -> "Text":
    """VALUE as it may be shown: None is '-', control characters are made visible."""
    from rich.text import Text  # noqa: PLC0415 - here and below: JSON draws nothing

    if isinstance(value, Text):
        return value
    return Text("-" if value is None else one_line(str(value)), style)


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], *, width: int | None, colour: bool) -> str:
    """ROWS under COLUMNS; WIDTH is the terminal's, None where there is none and a row must stay one line."""
    from rich.table import Table  # noqa: PLC0415

    drawn_table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=palette.HEADING)
    for column in columns:
        drawn_table.add_column(
            column.heading,
            justify="right" if column.number else "left",
            no_wrap=not column.grows,
            overflow="fold" if column.grows else "ellipsis",
        )
    for row in rows:
        drawn_table.add_row(*(cell(value) for value in row))
    return drawn(drawn_table, width=width, colour=colour)


def drawn(what: "RenderableType", *, width: int | None, colour: bool) -> str:
    """WHAT as lines without trailing blanks."""
    from rich.console import Console  # noqa: PLC0415

    out = StringIO()
    console = Console(
        file=out,
        width=width or PIPED_WIDTH,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(what)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def size(count: int) -> str:
    """Bytes in the largest unit of which there is at least one."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def span_of_time(nanoseconds: int) -> str:
    """A duration in the unit in which it is easily read."""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1000:.0f} us"
    if nanoseconds < 1_000_000_000:
        return f"{nanoseconds / 1_000_000:.1f} ms"
    return f"{nanoseconds / 1_000_000_000:.2f} s"


def age(seconds: float) -> str:
    """How long ago, in the largest unit of which there is at least one."""
    seconds = max(0.0, seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"
