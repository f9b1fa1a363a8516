"""Tables and amounts as text."""

import json

import pytest

from hicachectl.views import table
from hicachectl.views.table import Column


def test_without_a_terminal_a_row_is_one_line() -> None:
    """However long, so that grep and cut work; no colours, no trailing blanks."""
    text = table.table([Column("A"), Column("B", grows=True)], [["x" * 200, "y" * 300]], width=None, colour=False)
    assert text.splitlines()[1] == "x" * 200 + "  " + "y" * 300
    assert "\x1b" not in text


def test_on_a_terminal_the_growing_column_gives_way() -> None:
    """Nothing is wider than the terminal, and the text is all there."""
    text = table.table([Column("A"), Column("B", grows=True)], [["short", "word " * 30]], width=40, colour=False)
    assert max(map(len, text.splitlines())) <= 40
    assert text.count("word") == 30


def test_strings_from_outside_cannot_drive_the_terminal() -> None:
    """Control characters become visible, markup stays text."""
    text = table.table([Column("A")], [["\x1b[31mred\r\n"], ["[bold]x[/bold]"], [None]], width=None, colour=True)
    assert "\\x1b[31mred" in text
    assert "[bold]x[/bold]" in text
    assert text.splitlines()[-1].strip() == "-"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (10 << 30, "10.0 GiB"), (5 << 50, "5120.0 TiB")],
)
def test_sizes_are_read_at_a_glance(count: int, shown: str) -> None:
    """The largest unit of which there is at least one."""
    assert table.size(count) == shown


def test_durations_and_ages_take_the_unit_that_fits() -> None:
    """Microseconds to seconds, seconds to days."""
    assert [table.span_of_time(n) for n in (0, 999_499, 1_500_000, 2_000_000_000)] == [
        "0 us",
        "999 us",
        "1.5 ms",
        "2.00 s",
    ]
    assert [table.age(n) for n in (-5, 59, 60, 7200, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]


def test_a_document_carries_its_schema_and_is_ascii() -> None:
    """A script knows what it reads; no byte of it moves a cursor."""
    text = table.document("runs", {"a": "\x9b\u2028"})
    assert json.loads(text) == {"schema": "hicachectl/runs/1", "a": "\x9b\u2028"}
    assert text.isascii()
    assert text.endswith("}\n")
