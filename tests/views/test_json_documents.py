"""JSON documents as every command writes them."""

import json

import pytest

from hicachectl.views.machine import indented

ROWS = [
    {"rid": "chat-1", "times_ms": {"lookup": 7.423, "transfer": 0.0, "load_back": 0.001}, "ranks": [], "attempt": 0, "lost": [{"certain": True, "code": None}]},
    {"rid": "caf\u00e9 \u2028 \U0001f600", "verdict": 'quoted "a" \\ /'},
    {"rid": "\x7f\x00\x1f\t\n"},
    {"seconds": 9_223_372_036_854.775, "tokens": 2**63},
]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
@pytest.mark.parametrize("everyday", [False, True])
def test_a_row_is_written_as_the_standard_library_writes_it(row: dict[str, object], *, everyday: bool) -> None:
    """ASCII, two blanks a level, the same to the byte whichever way it was made."""
    assert indented(row, everyday=everyday) == json.dumps(row, indent=2)
    assert indented(row, 2, everyday=everyday) == json.dumps([[row]], indent=2).split("\n", 2)[2].lstrip().rsplit("\n", 2)[0]
