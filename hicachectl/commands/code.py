"""`hicachectl code`: the page of one finding code or Mooncake number, or the list of all codes."""

import os
import shutil
import sys
from enum import Enum
from typing import Annotated, Optional

import typer

from hicachectl.diagnosis import codes
from hicachectl.diagnosis.codes.asked import find, nearest
from hicachectl.exits import UsageError
from hicachectl.options import Output, OutputOption
from hicachectl.views import code as view

app = typer.Typer(add_completion=False)


class Level(str, Enum):
    """The levels that the list can be narrowed to."""

    error = "error"
    warning = "warning"
    info = "info"


CodeArgument = Annotated[
    Optional[str],
    typer.Argument(
        metavar="CODE",
        help="A finding code (R12 or HC-R12), or a Mooncake number or name (-704, OBJECT_NOT_FOUND). Default: the list.",
        show_default=False,
    ),
]
LevelOption = Annotated[Optional[Level], typer.Option("--level", help="List only codes of this level.")]
LetterOption = Annotated[
    Optional[str],
    typer.Option(
        "--letter",
        metavar="LETTER",
        help="List only codes of this letter: " + ", ".join(f"{k} {v}" for k, v in codes.LETTERS.items()) + ".",
    ),
]


# A number begins with a dash and would be read as options: what is no option of ours is the argument.
@app.command(context_settings={"ignore_unknown_options": True})
def code(
    asked: CodeArgument = None,
    level: LevelOption = None,
    letter: LetterOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Print the page of a finding code or of a Mooncake number, or list all codes.

    Example:   hicachectl code R12

    Example:   hicachectl code -- -704

    Example:   hicachectl code --letter R --level warning
    """
    if asked is None:
        print(_listed(level, letter, output), end="")
    elif level or letter:
        raise UsageError("--level and --letter narrow the list: leave them out, or leave out the code")
    else:
        print(_found(asked, output), end="")


def _listed(level: Level | None, letter: str | None, output: Output) -> str:
    if letter is not None and letter.upper() not in codes.LETTERS:
        raise UsageError(f"no code has the letter {letter!r}: the letters are {', '.join(codes.LETTERS)}")
    rows = [
        row for row in codes.listed() if level in (None, row.level) and (letter is None or row.letter == letter.upper())
    ]
    if output is Output.json:
        return view.document(None, rows, (), {})
    return view.listing(rows, width=_width(), colour=_colour())


def _found(asked: str, output: Output) -> str:
    found = find(asked)
    if not found.codes and not found.errors:
        near = nearest(asked)
        hint = f"did you mean {' or '.join(near)}?" if near else "`hicachectl code` lists the codes"
        raise UsageError(f"no finding code and no Mooncake number or name is {asked!r}: {hint}")
    pages = {row.id: codes.page(row.id) for row in found.codes}
    if output is Output.json:
        return view.document(asked, found.codes, found.errors, pages)
    text = "\n".join(pages.values()) if pages else view.meanings(found.errors)
    return view.page(text, width=_width(), colour=_colour())


def _width() -> int | None:
    """Columns of the terminal that stdout is; None when it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
