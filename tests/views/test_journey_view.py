"""One request span by span."""

from pathlib import Path

from recordings import Recording, page_keys

from hicachectl import store
from hicachectl.store.around import around
from hicachectl.views import journey as view
from tracers import vocabulary as v


def a_request() -> Recording:
    """A request with a nested call, a batch, a load, and others beside it."""
    made = Recording()
    engine = made.engine()
    gate = engine.span(v.PREFETCH_GATE, 10, 12, rid="mine", attributes={v.OUTCOME: v.DECLINED, v.REASON: "R04"})
    engine.span(v.PREFETCH_ENQUEUE, 10.5, 11, rid="mine", parent=gate, attributes={v.PAGE_KEYS: page_keys("a", "b")})
    get = engine.span(v.PREFETCH_TRANSFER, 13, 14, thread=("io", 9), error=True, attributes={v.ERROR: "OSError"})
    engine.span(v.STORE_GET, 13.1, 13.9, parent=get, thread=("io", 9))
    engine.span(v.PREFETCH_LOOKUP, 12, 13, rid="mine", links=[get], thread=("q", 8))
    ask = engine.span(v.LOAD_BACK_ASK, 15, rid="mine")
    engine.span(v.LOAD_BACK, 15, rid="mine", parent=ask, attributes={v.NODE: 4})
    engine.span(v.LOAD_BACK_START, 14, attributes={v.NODES: [4]})
    engine.span(v.LOAD_BACK_START, 16, attributes={v.NODES: [3, 4]})
    engine.span(v.LOAD_BACK_START, 18, attributes={v.NODES: [4]})
    engine.span(v.PREFILL, 17, rid="mine", attributes={v.BATCH: 7})
    engine.span(v.FORWARD, 17.5, attributes={v.BATCH: 7})
    engine.span(v.FORWARD, 18.5, attributes={v.BATCH: 8})
    engine.span(v.PREFILL, 17, rid="other", attributes={v.BATCH: 7})
    return made


def test_what_was_done_for_a_request_is_found_around_it(tmp_path: Path) -> None:
    """Its own spans, linked work and what lies below it, its batch, the load it waited for; nothing of another request."""
    spans = around(store.read([a_request().write(tmp_path)]), "mine")
    assert [(span.name, (span.start_ns // 1000) % 1_000_000 / 1000) for span in spans] == [
        (v.PREFETCH_GATE, 10), (v.PREFETCH_ENQUEUE, 10.5), (v.PREFETCH_LOOKUP, 12), (v.PREFETCH_TRANSFER, 13), (v.STORE_GET, 13.1),
        (v.LOAD_BACK_ASK, 15), (v.LOAD_BACK, 15), (v.LOAD_BACK_START, 16), (v.PREFILL, 17), (v.FORWARD, 17.5),
    ]  # fmt: skip


def test_calls_inside_calls_are_indented(tmp_path: Path) -> None:
    """The tree follows time, each call directly followed by what it called; times count from the first span."""
    spans = around(store.read([a_request().write(tmp_path)]), "mine")
    lines = view.journey("mine", spans, width=None, colour=False).splitlines()
    assert lines[0].startswith("mine in host-a:101:")
    rows = [line.split(None, 4) for line in lines[2:]]
    assert [row[4].split()[0] for row in rows][:3] == ["prefetch.gate", "prefetch.enqueue", "prefetch.lookup"]
    assert "  prefetch.enqueue" in lines[3]
    assert "page.keys 2 (" in lines[3]
    assert lines[2].endswith("declined R04")
    assert lines[5].rstrip().endswith("failed OSError")
    assert lines[3].split()[:2] == ["+500", "us"]


def test_parents_that_form_a_ring_do_not_hang(tmp_path: Path) -> None:
    """A damaged recording may say that two spans lie inside each other."""
    made = Recording()
    engine = made.engine()
    one, two = engine.span(v.STORE_GET, 1, rid="a"), engine.span(v.STORE_PUT, 2, rid="a")
    one.document["parentSpanId"], two.document["parentSpanId"] = two.span_id, one.span_id
    spans = around(store.read([made.write(tmp_path)]), "a")
    assert [(span.name, depth) for span, depth in view.tree(spans)] == [(v.STORE_GET, 0), (v.STORE_PUT, 0)]


def test_a_hostile_request_cannot_drive_the_terminal(tmp_path: Path) -> None:
    """Request ids, thread names and values come from outside."""
    made = Recording()
    engine = made.engine(host="h\x1b[2J")
    engine.span(v.PREFILL, 1, rid="r\x1b]0;x\x07", thread=("t\x9b", 1), attributes={v.MESSAGE: "m\r[red]"})
    recording = store.read([made.write(tmp_path)])
    text = view.journey("r\x1b]0;x\x07", recording.spans, width=200, colour=True)
    assert "\\x1b]0;x\\x07" in text
    assert "\x07" not in text
    assert "\x9b" not in text
    assert "m\\r[red]" in text
