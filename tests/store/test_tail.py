"""Following a recording that grows."""

from pathlib import Path

from recordings import Recording

from hicachectl.store import Tail
from tracers import vocabulary as v


def test_a_tail_sees_each_span_once_and_only_whole_lines(tmp_path: Path) -> None:
    """Half a line is waited for; what was seen does not come again; a new file is found."""
    made = Recording()
    engine = made.engine()
    one, two, three = (engine.span(v.FLUSH, at) for at in (1, 2, 3))
    tail = Tail(tmp_path)
    assert tail.look() == []
    file = tmp_path / "spans-a-1-1.jsonl"
    text = engine.line([two]) + "\n"
    file.write_text(engine.line([one]) + "\n" + text[:40])
    assert [span.span_id for span in tail.look()] == [one.span_id]
    with file.open("a") as stream:
        stream.write(text[40:] + "broken\n")
    (tmp_path / "spans-b-1-1.jsonl").write_text(engine.line([three]) + "\n")
    assert [span.span_id for span in tail.look()] == [two.span_id, three.span_id]
    assert tail.look() == []
    assert tail.broken_lines == 1
    assert tail.resources[engine.id][v.R_PID] == 101


def test_a_rotation_neither_repeats_nor_loses_spans(tmp_path: Path) -> None:
    """A file that is renamed keeps its place; the fresh file of its old name is read from its start."""
    made = Recording()
    engine = made.engine()
    one, two, three = (engine.span(v.FLUSH, at) for at in (1, 2, 3))
    file = tmp_path / "spans-a-1-1.jsonl"
    tail = Tail(tmp_path)
    file.write_text(engine.line([one]) + "\n")
    assert len(tail.look()) == 1
    with file.open("a") as stream:
        stream.write(engine.line([two]) + "\n")
    file.rename(tmp_path / "spans-a-1-1.jsonl.1")
    file.write_text(engine.line([three]) + "\n")
    assert [span.span_id for span in tail.look()] == [two.span_id, three.span_id]


def test_a_line_longer_than_one_look_is_read(tmp_path: Path) -> None:
    """A line above the bound of one look does not stop the tail."""
    made = Recording()
    engine = made.engine()
    engine.span(v.FLUSH, 1, attributes={v.MESSAGE: "x" * (17 << 20)})
    (tmp_path / "spans-a-1-1.jsonl").write_text(engine.line() + "\n")
    tail = Tail(tmp_path)
    assert [span.name for span in tail.look()] == [v.FLUSH]
    assert not tail.behind()
