"""Where the live summary is shown: lines below COMMAND's own output on a terminal, else a line every few seconds."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TextIO

from hicachectl.recorder.summary import Summary

Render = Callable[[Summary, "int | None"], Sequence[str]]
"""Summary and width of the terminal (None where there is none) to lines."""

LINE_EVERY_S = 5.0
_LEAST_ROWS = 10
"""A terminal with fewer rows is left to COMMAND alone."""


class Screen(Protocol):
    """Shows a summary, and lets go of the terminal."""

    def show(self, summary: Summary) -> None:
        """Show SUMMARY in place of the one before."""

    def release(self) -> None:
        """Leave the terminal as it was; the next `show` takes it again."""


def on(stream: TextIO, render: Render) -> Screen:
    """The screen that fits STREAM."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Footer(stream, render)
    return Lines(stream, render)


class Lines:
    """A line every few seconds, when something has changed."""

    def __init__(self, stream: TextIO, render: Render, every: float = LINE_EVERY_S) -> None:
        self._stream = stream
        self._render = render
        self._every = every
        self._due = 0.0
        self._last = ""

    def show(self, summary: Summary) -> None:
        """Write the summary as one line, unless it is the one before or too soon."""
        if time.monotonic() < self._due:
            return
        text = " ".join(self._render(summary, None))
        if text != self._last:
            self._last = text
            self._due = time.monotonic() + self._every
            _write(self._stream, text + "\n")

    def release(self) -> None:
        """Nothing to let go of."""


class Footer:
    """The last rows of a terminal, kept out of what scrolls.

    COMMAND writes to the same terminal by itself, so nothing may be drawn over its lines: the scrolling region ends above the footer
    (DECSTBM), and each drawing saves and restores the cursor.
    """

    def __init__(self, stream: TextIO, render: Render) -> None:
        self._stream = stream
        self._render = render
        self._held: tuple[int, int, int] | None = None
        """Columns, rows and rows of the footer."""

    def show(self, summary: Summary) -> None:
        """Draw the summary in the footer, which is made where there is none."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return
        lines = self._render(summary, columns)
        if rows < _LEAST_ROWS + len(lines):
            self.release()
            return
        room = ""
        if self._held != (columns, rows, len(lines)):
            self.release()
            self._held = (columns, rows, len(lines))
            # Room first, so that the lines that stand at the bottom scroll up instead of being covered.
            room = "\n" * len(lines) + f"\x1b[{len(lines)}A\x1b7\x1b[1;{rows - len(lines)}r\x1b8"
        drawn = "".join(f"\x1b[{rows - len(lines) + 1 + at};1H\x1b[2K{line}" for at, line in enumerate(lines))
        _write(self._stream, f"{room}\x1b7{drawn}\x1b8")

    def release(self) -> None:
        """Let the whole terminal scroll again, and clear the footer."""
        if self._held is not None:
            _, rows, count = self._held
            cleared = "".join(f"\x1b[{rows - count + 1 + at};1H\x1b[2K" for at in range(count))
            _write(self._stream, f"\x1b7\x1b[r{cleared}\x1b8")
            self._held = None


def _write(stream: TextIO, text: str) -> None:
    with suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()
