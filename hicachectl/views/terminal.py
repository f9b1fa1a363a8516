"""What stdout is: how wide, and whether it takes colours."""

import os
import shutil
import sys


def width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none, and a row must stay one line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def colour() -> bool:
    """Whether stdout is a terminal whose owner did not ask for no colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
