"""Reading recordings into memory."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from recordings import EPOCH_MS, Recording, trace_id_of

from hicachectl import store
from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.recording import drop_repeated
from hicachectl.store.span import Span
from tracers import vocabulary as v


def two_engines() -> Recording:
    """Two processes whose spans interleave."""
    made = Recording()
    first, second = made.engine(pid=101), made.engine(pid=202, tp_rank=1)
    gate = first.span(
        v.PREFETCH_GATE, 30, 31, rid="a", attributes={v.MATCHED_DEVICE: 16, v.REASON: "R04", v.DETAIL_CUT: False}
    )
    second.span(v.STORE_PUT, 10, 12, links=[gate], thread=("backup", 7), attributes={v.OBJECTS_CODES: ["-200=3"]})
    first.span(v.STORE_GET, 20, 25, parent=gate, error=True, attributes={v.TIMEOUT_BASE: 0.5, v.BAD_OBJECTS: [1, 2]})
    return made


def test_spans_of_all_processes_come_in_time_order_with_their_engine(tmp_path: Path) -> None:
    """Spans of every file are sorted by start, each with the engine that its resource names."""
    found = store.read([two_engines().write(tmp_path / "run")])
    assert [(s.name, s.engine.split(":")[1]) for s in found.spans] == [
        (v.STORE_PUT, "202"),
        (v.STORE_GET, "101"),
        (v.PREFETCH_GATE, "101"),
    ]
    assert found.complete
    assert found.paths == [str(tmp_path / "run")]


def test_core_fields_and_attributes_are_those_written(tmp_path: Path) -> None:
    """Ids, times, status, links, thread and every kind of attribute value come back as plain values."""
    put, get, gate = store.read([two_engines().write(tmp_path / "run")]).spans
    assert gate.trace_id == trace_id_of("a")
    assert gate.start_ns == (EPOCH_MS + 30) * 1_000_000
    assert gate.duration_ns == 1_000_000
    assert gate.attributes[v.MATCHED_DEVICE] == 16
    assert gate.attributes[v.DETAIL_CUT] is False
    assert (get.parent_id, get.trace_id, get.error, gate.error) == (gate.span_id, gate.trace_id, True, False)
    assert (get.attributes[v.TIMEOUT_BASE], get.attributes[v.BAD_OBJECTS]) == (0.5, [1, 2])
    assert (put.thread_name, put.thread_id, get.thread_id) == ("backup", 7, 101)
    assert put.attributes[v.OBJECTS_CODES] == ["-200=3"]
    assert put.links == (store.Link(gate.trace_id, gate.span_id),)


def test_a_resource_that_learns_its_rank_later_keeps_it(tmp_path: Path) -> None:
    """What a later line's resource adds is added; nothing is lost."""
    made = Recording()
    engine = made.engine()
    early = {key: value for key, value in engine.resource.items() if key != v.R_TP_RANK}
    first, second = engine.span(v.ENGINE_START, 1), engine.span(v.ENGINE, 2, 3)
    run = made.write(tmp_path / "run")
    late = dict(engine.resource)
    engine.resource = early
    text = engine.line([first]) + "\n"
    engine.resource = late
    next(run.glob("spans-*")).write_text(text + engine.line([second]) + "\n")
    found = store.read([run])
    assert found.resources[engine.id][v.R_TP_RANK] == 0
    assert len(found.resources) == 1


def test_a_collectors_lines_are_read_as_ours_are(tmp_path: Path) -> None:
    """Several resources in a line, integers as numbers, empty parents, flags, base64 ids, metrics beside: all the same."""
    ours = {"attributes": [{"key": v.R_ENGINE, "value": {"stringValue": "h:1:2"}}], "droppedAttributesCount": 0}
    span = {
        "traceId": "AAECAwQFBgcICQoLDA0ODw==",
        "spanId": "AAECAwQFBgc=",
        "parentSpanId": "",
        "flags": 256,
        "name": v.PREFILL,
        "kind": "SPAN_KIND_INTERNAL",
        "startTimeUnixNano": 5_000_000_000,
        "endTimeUnixNano": "5000000001",
        "attributes": [{"key": v.PREFIX_TOKENS, "value": {"intValue": 592}}, {"key": "n", "value": {"doubleValue": 3}}],
        "events": [],
        "status": {"code": "STATUS_CODE_ERROR"},
    }
    other = span | {"spanId": "00000000000000ff", "traceId": "0" * 31 + "1", "startTimeUnixNano": "1"}
    line = {
        "resourceSpans": [
            {"resource": ours, "scopeSpans": [{"scope": {}, "spans": [span]}, {"spans": []}], "schemaUrl": ""},
            {"resource": {}, "scopeSpans": [{"spans": [other]}]},
            {},
        ]
    }
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps(line) + "\n\n" + json.dumps({"resourceMetrics": []}) + "\n")
    found = store.read([tmp_path])
    foreign, own = found.spans
    assert (own.trace_id, own.span_id) == ("000102030405060708090a0b0c0d0e0f", "0001020304050607")
    assert (own.engine, foreign.engine, own.error, own.parent_id) == ("h:1:2", "", True, "")
    assert own.attributes == {v.PREFIX_TOKENS: 592, "n": 3.0}
    assert found.broken_lines == 0


def test_a_span_that_came_twice_is_counted_once(tmp_path: Path) -> None:
    """A collector delivers at least once; the repeated span is dropped, its neighbours of the same time stay."""
    made = Recording()
    engine = made.engine()
    engine.span(v.FLUSH, 1)
    engine.span(v.RESET, 1)
    run = made.write(tmp_path / "run")
    file = next(run.glob("spans-*"))
    file.write_text(file.read_text() * 2)
    assert [span.name for span in store.read([run]).spans] == [v.FLUSH, v.RESET]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12))
def test_of_spans_that_begin_at_once_each_id_stays_once(told: list[tuple[int, int]]) -> None:
    """The first of several with one start and one id stays, wherever between others of that start they lie; those of another start are others."""
    spans = [Span("n", "t", f"{number:016x}", start_ns=start, end_ns=place) for place, (start, number) in enumerate(sorted(told, key=lambda each: each[0]))]
    firsts = {(span.start_ns, span.span_id): span for span in reversed(spans)}
    expected = [span.end_ns for span in spans if firsts[span.start_ns, span.span_id] is span]
    drop_repeated(spans)
    assert [span.end_ns for span in spans] == expected


@pytest.mark.parametrize(
    ("value", "rid"),
    [
        ('{"stringValue":"a-1"}', "a-1"),
        ('{"stringValue":""}', ""),
        ('{"stringValue":"a\\"b"}', 'a"b'),
        ('{"stringValue":"a\\u00e9"}', "a\u00e9"),
        ('{"stringValue":"a\u00e9"}', "a\u00e9"),
        ('{"intValue":"7"}', None),
    ],
)
def test_a_request_id_is_found_however_it_is_written(value: str, rid: str | None) -> None:
    """Escaped, not in ASCII, or a number: as decoding all attributes would have it."""
    raw = f'[{{"key":"thread.id","value":{{"intValue":"1"}}}},{{"key":"{v.RID}","value":{value}}}]'.encode()
    span = Span("n", "t", "0" * 16, raw=Raw(raw))
    assert span.rid == rid
    assert Span("n", "t", "0" * 16, raw=Raw(raw)).attributes.get(v.RID) == (7 if rid is None else rid)


def test_a_cut_last_line_is_forgiven_and_counted(tmp_path: Path) -> None:
    """What a killed process left half written is not an error; the recording is not complete."""
    run = two_engines().write(tmp_path / "run", batch=1)
    file = next(run.glob("spans-host-a-101-*"))
    file.write_bytes(file.read_bytes()[:-20])
    found = store.read([run])
    assert (len(found.spans), found.cut_lines, found.broken_lines) == (2, 1, 0)
    assert not found.complete
    assert found.missing == 1


def test_broken_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    """A line in the middle that is no request costs only itself."""
    run = two_engines().write(tmp_path / "run")
    file = next(run.glob("spans-host-a-101-*"))
    file.write_bytes(b'{"a": 1}\nnonsense\n\xff\xfe\n' + file.read_bytes())
    found = store.read([run])
    assert (len(found.spans), found.broken_lines) == (3, 3)
    assert "3 lines cannot be read" in found.incomplete


@pytest.mark.parametrize("text", ["not json\n", "not json", "{}\n", '{"resourceSpans": 5}\n', "[" * 100_000 + "\n"])
def test_a_file_in_which_nothing_can_be_read_is_bad_input(tmp_path: Path, text: str) -> None:
    """Nothing readable at all is the contract's exit 4, as a file and as a recording's only file."""
    file = tmp_path / "spans-h-1-2.jsonl"
    file.write_text(text)
    for run in (file, tmp_path):
        with pytest.raises(BadInputError, match=r"spans-h-1-2|test_a_file"):
            store.read([run])


def test_a_missing_recording_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is not there, a folder without a recording, and an empty home are exit 3 and name the place."""
    monkeypatch.setenv("HICACHECTL_HOME", str(tmp_path / "home"))
    for runs, place in ((["/absent/run"], "/absent/run"), ([tmp_path], str(tmp_path)), ([], str(tmp_path / "home"))):
        with pytest.raises(UnreachableError, match=place):
            store.read(runs)


def test_an_empty_recording_is_a_recording(tmp_path: Path) -> None:
    """A folder with run.json alone was a trace in which nothing happened."""
    found = store.read([Recording().write(tmp_path / "run")])
    assert (found.spans, found.complete) == ([], True)


def test_stdin_is_read_by_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """'-' reads lines from standard input; the ledger then comes from its span."""
    made = Recording()
    engine = made.engine()
    engine.span(v.ENGINE_START, 1)
    told = {
        v.CLOSED: True,
        v.DROPPED: 4,
        v.WRITTEN: 1,
        v.POINTS_INSTALLED: 9,
        v.POINTS_MISSING: ["prefetch.gate"],
        v.POINTS_RETIRED: ["load_back"],
    }
    engine.span(v.LEDGER, 2, attributes={v.CLOSED: False})
    engine.span(v.LEDGER, 5, attributes=told)
    run = made.write(tmp_path / "run")
    text = next(run.glob("spans-*")).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    found = store.read(["-"])
    ledger = found.ledgers[engine.id]
    assert (ledger.closed, ledger.dropped, ledger.installed, ledger.scheduler) == (True, 4, 9, True)
    assert (ledger.ids("missing"), ledger.ids("retired")) == (["prefetch.gate"], ["load_back"])
    assert (ledger.pid, ledger.host, ledger.versions["sglang"]) == (101, "host-a", "0.5.14")
    assert found.paths == ["-"]


def test_each_reason_for_an_incomplete_recording_is_told(tmp_path: Path) -> None:
    """No ledger, an open ledger, dropped spans and written spans that are not there are told apart."""
    made = Recording()
    for pid in (1, 2, 3, 4, 5):
        made.engine(pid=pid).span(v.FLUSH, pid)
    one, two, three, four, five = made.engines
    one.without_ledger()
    two.ledger(closed=False)
    three.ledger(dropped=7)
    four.ledger(written=11)
    five.ledger(written=1)
    found = store.read([made.write(tmp_path / "run")])
    assert [reason.split(" ", 1)[0] for reason in found.incomplete] == [one.id, two.id, three.id, four.id]
    assert (found.dropped, found.missing) == (7, 10)


def test_a_scheduler_that_its_parent_ended_is_complete(tmp_path: Path) -> None:
    """Schedulers are killed by their parent: its ledger says that it did so, unless they had died before."""
    made = Recording()
    now = EPOCH_MS + 60_000
    made.engine(pid=1, scheduler=False).ledger(ended_ms=now)
    for pid, seen in ((2, now - 900), (3, now - 30_000)):
        made.engine(pid=pid).ledger(closed=False, ppid=1, seen_ms=seen).span(v.FLUSH, 1)
    found = store.read([made.write(tmp_path / "run")])
    assert [reason.split(":")[1] for reason in found.incomplete] == ["3"]


def test_a_parent_may_end_schedulers_one_after_the_other(tmp_path: Path) -> None:
    """A process that starts an engine anew ends each in order, and tells of each end."""
    made = Recording()
    first, second = EPOCH_MS + 20_000, EPOCH_MS + 60_000
    made.engine(pid=1, scheduler=False).ledger(ended_ms=second, ends_ms=[first, second])
    for pid, seen in ((2, first - 900), (3, second - 900), (4, first - 8_000)):
        made.engine(pid=pid).ledger(closed=False, ppid=1, seen_ms=seen).span(v.FLUSH, 1)
    found = store.read([made.write(tmp_path / "run")])
    assert [reason.split(":")[1] for reason in found.incomplete] == ["4"]


def test_a_point_is_missing_when_a_target_that_it_needs_is_not_there(tmp_path: Path) -> None:
    """One installed target does not stand in for a missing one, while an absent one counts only where no other is there."""
    made = Recording()
    engine = made.engine().point("a", "missing").point("a").point("b", "absent").point("b").point("c", "absent").point("d", "waiting")
    ledger = store.read([made.write(tmp_path / "run")]).ledgers[engine.id]
    assert (ledger.installed, ledger.ids("missing"), ledger.ids("waiting")) == (2, ["a", "c"], ["d"])


def test_a_process_that_only_loaded_the_plugin_may_leave_an_open_ledger(tmp_path: Path) -> None:
    """A tokenizer that is killed wrote no span: its open ledger hides nothing."""
    made = Recording()
    made.engine(pid=1, scheduler=False).ledger(closed=False)
    assert store.read([made.write(tmp_path / "run")]).complete


def test_rotated_files_belong_to_the_recording(tmp_path: Path) -> None:
    """`.jsonl.1` and `.jsonl` are one stream, ordered by time."""
    made = Recording()
    engine = made.engine()
    engine.span(v.RESET, 2)
    engine.span(v.FLUSH, 1)
    run = made.write(tmp_path / "run", batch=1)
    file = next(run.glob("spans-*"))
    first, second = file.read_text().splitlines(keepends=True)
    file.write_text(first)
    file.with_name(file.name + ".1").write_text(second)
    found = store.read([run, file])
    assert [span.name for span in found.spans] == [v.FLUSH, v.RESET]
    assert found.complete


def test_an_attribute_that_cannot_be_read_is_left_out() -> None:
    """One wrong value does not take the others with it, nor raise when it is looked at."""
    pairs = '{"key":"a","value":{"intValue":"x"}},{"key":"b","value":{"intValue":"7"}},5,{"key":"c","value":{}}'
    line = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"name":"n","traceId":"t","spanId":"s","attributes":[{pairs}]}}]}}]}}]}}'
    (span,) = Decoder().spans(line.encode())
    assert span.attributes == {"b": 7}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_line_is_read_or_refused(data: st.DataObject) -> None:
    """However a line is damaged, it yields spans or one error; looking at the spans never raises."""
    made = Recording()
    engine = made.engine()
    engine.span(v.STORE_PUT, 1, 2, rid="a", error=True, attributes={v.BAD_OBJECTS: [1], v.TIMEOUT_BASE: 1.5})
    line = bytearray(engine.line().encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(line) - 1))
        line[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=4))
    try:
        spans = Decoder().spans(bytes(line))
    except BrokenLineError:
        return
    for span in spans:
        assert isinstance(span.attributes, dict)
        assert span.thread_id >= 0 or span.thread_id < 0
        assert span.duration_ns >= 0
