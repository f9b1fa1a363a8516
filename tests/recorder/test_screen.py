"""Where the live summary is shown."""

import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import TextIO

import pytest

from hicachectl.recorder import screen
from hicachectl.recorder.summary import Summary


def render(summary: Summary, width: int | None) -> list[str]:
    """Two lines that tell the width."""
    return [f"spans {summary.spans}", f"width {width}"]


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A terminal of 24 rows: its stream, and the other side."""
    theirs, ours = pty.openpty()
    ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(ours, "w") as stream:
        yield stream, theirs
    os.close(theirs)


def test_without_a_terminal_there_is_a_line_when_something_changed() -> None:
    """The same line is not written twice, and a changed one only after the interval."""
    out = io.StringIO()
    shown = screen.on(out, render)
    assert isinstance(shown, screen.Lines)
    quick = screen.Lines(out, render, every=0)
    for spans in (1, 1, 2):
        quick.show(Summary(spans=spans))
    quick.release()
    slow = screen.Lines(out, render, every=100)
    for spans in (3, 4):
        slow.show(Summary(spans=spans))
    assert out.getvalue().splitlines() == [f"spans {n} width None" for n in (1, 2, 3)]


def test_a_terminal_gets_a_footer_that_does_not_scroll(
    terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scrolling region ends above the footer; it is made once, redrawn in place, and taken away at the end."""
    monkeypatch.setenv("TERM", "xterm")
    stream, theirs = terminal
    shown = screen.on(stream, render)
    assert isinstance(shown, screen.Footer)
    shown.show(Summary(spans=1))
    first = os.read(theirs, 4096).decode()
    assert "\x1b[1;22r" in first
    assert "\x1b[23;1H\x1b[2Kspans 1" in first
    assert "\x1b[24;1H\x1b[2Kwidth 80" in first
    shown.show(Summary(spans=2))
    second = os.read(theirs, 4096).decode()
    assert "r\x1b8" not in second
    assert "spans 2" in second
    shown.release()
    assert "\x1b[r" in os.read(theirs, 4096).decode()


def test_a_small_terminal_is_left_to_the_command(terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With few rows there is no footer; a footer goes when the terminal shrinks."""
    monkeypatch.setenv("TERM", "xterm")
    stream, theirs = terminal
    shown = screen.Footer(stream, render)
    shown.show(Summary())
    os.read(theirs, 4096)
    ioctl(stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 6, 80, 0, 0))
    shown.show(Summary())
    assert "\x1b[r" in os.read(theirs, 4096).decode()
    shown.show(Summary())
    shown.release()
    os.set_blocking(theirs, False)
    with pytest.raises(BlockingIOError):
        os.read(theirs, 4096)


def test_a_stream_that_went_away_does_not_stop_the_recording(tmp_path: Path) -> None:
    """A closed stderr costs the summary only."""
    stream = (tmp_path / "x").open("w")
    stream.close()
    screen.Lines(stream, render, every=0).show(Summary())
