"""The presence map as text."""

from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import Kind, parse
from hicachectl.keys.presence import Presence, engine_would
from hicachectl.keys.report import Report
from hicachectl.keys.shape import Shape
from hicachectl.views.presence import as_text


def shown(
    shape: Shape, pages: int, missing: dict[tuple[int, int], int], width: int | None = None, colour: bool = False
) -> str:
    """The text for PAGES pages of which MISSING, page and object to answer, are not there."""
    keys = page_keys(range(pages * shape.page_size), shape.page_size, sglang=shape.sglang)
    count = len(layout(shape).slots)
    answers = [[missing.get((page, slot), 1) for slot in range(count)] for page in range(pages)]
    found = Presence(shape, keys, answers)
    tokens = pages * shape.page_size
    store = {"master": "a:1", "admin": "http://a:2", "lookup": "query"}
    report = Report(shape, layout(shape), keys, tokens, found, engine_would(found, tokens), None, store)
    return as_text(report, width=width, colour=colour)


def lines(text: str) -> list[str]:
    """The lines of the map alone."""
    return text.split("\n\n")[1].splitlines()


def test_every_rank_stage_and_part_has_a_row() -> None:
    """Rank, stage and part name each row, and each cell is a page."""
    text = shown(Shape(page_size=2, tp_size=2, pp_size=2), 4, {(1, 5): 0, (3, 0): -900})
    assert lines(text) == [
        "             0",
        "tp 0 pp 0 k  ■□□?",
        "tp 0 pp 0 v  ■□□□",
        "tp 1 pp 0 k  ■□□□",
        "tp 1 pp 0 v  ■□□□",
        "tp 0 pp 1 k  ■□□□",
        "tp 0 pp 1 v  ■·□□",
        "tp 1 pp 1 k  ■□□□",
        "tp 1 pp 1 v  ■□□□",
        "             ■ there   □ there, behind the cut   · missing   ? no answer",
    ]


def test_what_ranks_share_has_one_row() -> None:
    """Objects that ranks share, and side pools, are named as such."""
    text = shown(Shape(page_size=2, kind=Kind.mla, tp_size=2, pools=(parse("draft:mha", "0.5.14"),)), 2, {})
    labels = [line.rstrip("■□· ") for line in lines(text)[1:-1]]
    assert labels == ["all tp k", "tp 0 draft k", "tp 0 draft v", "tp 1 draft k", "tp 1 draft v"]


def test_a_long_prompt_is_broken_into_lines_with_page_numbers() -> None:
    """More pages than a line holds go on below, under their own page numbers, within the terminal's width."""
    text = shown(Shape(page_size=1), 100, {(70, 1): 0}, width=40)
    rows = lines(text)
    assert rows[0] == "   0         10        20        30"
    assert rows[1] == "k  " + "■" * 37
    assert all(len(row) <= 40 for row in rows)
    marks = "".join(row[3:] for row in text.split("\n") if row.startswith("v  "))
    assert marks == "■" * 70 + "·" + "□" * 29


def test_a_very_long_prompt_has_cells_of_several_pages() -> None:
    """Where even six lines are too few, a cell stands for several pages, says so, and shows that only some are there."""
    text = shown(Shape(page_size=1), 4000, {(1000, 0): 0})
    rows = lines(text)
    assert "(a cell is 11 pages)" in text
    assert sum("▣" in line for line in text.splitlines()) == 3  # K and V where the cut is, and the legend
    assert max(len(row) for row in rows) < 80


def test_many_rows_alike_are_shown_as_one() -> None:
    """Of more than eight rows, those with the same cells are one."""
    text = shown(Shape(page_size=2, tp_size=8), 3, {(1, 15): 0})
    assert lines(text)[1:-1] == ["tp 0 k and 14 more  ■□□", "tp 7 v              ■·□"]


def test_an_empty_prompt_has_no_map() -> None:
    """Without a full page there is nothing to draw, and the engine would not look anything up."""
    text = shown(Shape(page_size=2), 0, {})
    assert "0 full pages, 0 objects" in text
    assert "HC-R04" in text
    assert "■" not in text


def test_colour_only_when_asked_for() -> None:
    """Escape sequences appear only where a terminal takes them, and names from outside never bring their own."""
    shape = Shape(page_size=2, tag="\x1b[31mred")
    assert "\x1b" not in shown(shape, 2, {(1, 0): 0})
    assert "\x1b[" in shown(Shape(page_size=2), 2, {}, width=100, colour=True)
    assert "\x1b[31mred" not in shown(shape, 2, {(1, 0): 0}, width=100, colour=True)
