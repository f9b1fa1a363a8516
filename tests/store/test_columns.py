"""Recordings in a column store: what comes out is what went in, and one request is judged as among all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from invoke import ROOT
from recordings import Recording
from stories import Story, page_names

from hicachectl import store
from hicachectl.diagnosis.run import diagnose, select
from hicachectl.store import Span, kinds
from hicachectl.store.columns import Database, around, opened
from hicachectl.store.columns.database import Sql, array, filled
from hicachectl.store.columns.one import one
from hicachectl.store.columns.reading import chosen, counted, resources, whole
from hicachectl.views import explained
from hicachectl.views import judged as view
from tracers import vocabulary as v

pytest.importorskip("chdb")
SAMPLES = sorted(path.parent for path in (ROOT / "tests" / "samples").rglob("run.json"))


def told(recording: store.Recording, rid: str | None = None) -> dict[str, Any]:
    """What `explain -o json` says, but for the paths."""
    found = diagnose(recording)
    verdicts, findings = select(found, rid, None)
    document = "".join(explained.as_json(view.head_row(found.world), map(view.request_row, verdicts), lambda: map(explained.finding_row, findings)))
    return {**json.loads(document), "runs": []}


def agree(folder: Path, database: Database) -> int:
    """Compare every verdict with that from the files: all at once, and request by request; the number of requests."""
    recorded = store.read([folder])
    assert told(whole(database)) == told(recorded)
    rids = {each.journey.attempt.rid for each in diagnose(recorded).requests}
    for rid in sorted(rids):
        found = one(database, rid)
        assert found is not None
        assert told(found.recording, rid) == told(recorded, rid)
    return len(rids)


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
def test_a_recording_of_the_real_engine_explains_the_same_from_columns(run: Path) -> None:
    """As a whole and one request at a time, to the last field; text has its kind back."""
    recorded = store.read([run])
    with opened(f"chdb:{run}") as database:
        assert agree(run, database) >= 2
        kept = whole(database)
    assert {span.span_id: span.attributes for span in kept.spans} == {span.span_id: span.attributes for span in recorded.spans}
    assert {engine: told for engine, told in kept.resources.items() if engine in recorded.resources} == recorded.resources


def written(database: Database) -> list[Span]:
    """Spans that name a page of a request."""
    return list(chosen(database, around.AMONG_FEW, keys=array([page_names("a", 8, "16")[3]])))


def begun(database: Database) -> list[Span]:
    """Requests that begin with a page."""
    return list(chosen(database, f"{around.BEGUN_AS_FEW} $whole", begins=array([page_names("a", 8, "16")[0]])))


def lost_and_blamed(story: Story) -> None:
    """A write fails, and later requests that begin alike lose its pages; others begin otherwise."""
    engine = story.engine()
    engine.request("writes", 8, bad_put={3: -800})
    engine.request("loses", 8, prompt="writes", hit=1)
    engine.request("loses-too", 8, prompt="writes", hit=1)
    engine.request("other", 8)
    engine.request("other-again", 8, prompt="other", hit=8)


def no_space(story: Story) -> None:
    """The store is full for one prompt, and the process gave it less memory than was asked: a finding for requests that have nothing in common with it too."""
    engine = story.engine(config={v.SEGMENT_SIZE: 1 << 30}, setup={v.SEGMENT_SIZE: 1 << 29})
    engine.request("fails", 8, bad_put={3: -200})
    engine.request("other", 8)


def another_scheme(story: Story) -> None:
    """Two engines hash the same prompt to other keys; a third writes it with a tag."""
    story.engine(scheme="a").request("a", 8)
    story.engine(page=64, scheme="b").request("b", 2, prompt="a")
    story.engine(tag="t").request("c", 8, prompt="a")


def dead_thread(story: Story) -> None:
    """The backup thread dies of one request's write; others queue behind it, and one elsewhere misses the pages."""
    engine = story.engine()
    engine.request("dies", 8, store_error="RuntimeError")
    engine.span(v.WRITE_THREAD, thread=("backup_thread_func", 9), error=True, attributes={v.OUTCOME: "failed", v.ERROR: "RuntimeError", v.QUEUE: 1})
    engine.request("behind", 8, writes=False)
    story.engine().request("elsewhere", 8, prompt="dies")


def sampled(story: Story) -> None:
    """The master counts evictions between a write and a lookup that misses."""
    engine = story.engine()
    story.sample(keys=0, evicted=0)
    engine.request("writes", 8)
    story.sample(keys=16, evicted=0)
    story.sample(keys=4, evicted=12)
    engine.request("misses", 8, prompt="writes", hit=0)
    story.sample(keys=16, evicted=12)


def reset_in_flight(story: Story) -> None:
    """A reset drops what was under way; the store is cleared though nobody counted."""
    engine = story.engine()
    engine.request("before", 8)
    engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 2})
    clear = engine.span(v.STORAGE_CLEAR, attributes={v.OUTCOME: "ok"})
    engine.span(v.STORE_REMOVE, parent=clear, attributes={v.CODE: 3})
    engine.request("after", 8, prompt="before")


@pytest.mark.parametrize("tale", [lost_and_blamed, no_space, another_scheme, dead_thread, sampled, reset_in_flight], ids=lambda tale: tale.__name__)
def test_what_others_did_counts_for_a_request_that_is_read_alone(tale: Callable[[Story], None], tmp_path: Path) -> None:
    """Writers, twins under other keys, faults of others and of processes: a verdict is the same as among all spans, and finds something."""
    story = Story()
    tale(story)
    folder = story.recording.write(tmp_path / "run")
    with opened(f"chdb:{folder}") as database:
        assert agree(folder, database) >= 2
    assert diagnose(store.read([folder])).findings


@pytest.mark.parametrize("tale", [lost_and_blamed, another_scheme], ids=lambda tale: tale.__name__)
def test_requests_that_begin_alike_are_found_however_many_beginnings_there_are(tale: Callable[[Story], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beginnings that are too many for the index are looked up in a set: by tokens, and by the first page."""
    monkeypatch.setattr(around, "FEW_BEGINNINGS", 0)
    story = Story()
    tale(story)
    folder = story.recording.write(tmp_path / "run")
    with opened(f"chdb:{folder}") as database:
        assert agree(folder, database) >= 3


def test_writers_are_found_however_many_pages_a_request_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are too many for a question to name them are looked for by the database itself."""
    monkeypatch.setattr(around, "MOST_KEYS", 0)
    story = Story()
    lost_and_blamed(story)
    folder = story.recording.write(tmp_path / "run")
    with opened(f"chdb:{folder}") as database:
        assert agree(folder, database) == 5


@pytest.mark.parametrize(("asks", "forced"), [(resources, "force_optimize_projection_name = 'processes'"), (counted, "force_optimize_projection_name = 'counts'"), (written, "force_data_skipping_indices = 'pages'"), (begun, "force_data_skipping_indices = 'beginnings'")], ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_what_would_be_asked_of_every_span_is_answered_without_reading_it(asks: Callable[[Database], Any], forced: str, tmp_path: Path) -> None:
    """The question has the very expressions of our projections and of our index: the engine, told to use them or fail, answers."""
    story = Story()
    story.engine().request("a", 8)
    with opened(f"chdb:{story.recording.write(tmp_path / 'run')}") as database:
        database.whole = Sql(f"{database.whole}, {forced}")
        assert asks(database)


def test_a_request_is_read_without_those_that_it_has_nothing_to_do_with(tmp_path: Path) -> None:
    """Of a hundred other requests no span is read; where an id is no request's, ids that begin with it are."""
    story = Story()
    engine = story.engine()
    for number in range(100):
        engine.request(f"other-{number}", 4)
    engine.request("mine", 8)
    with opened(f"chdb:{story.recording.write(tmp_path / 'run')}") as database:
        found, missing = one(database, "min"), one(database, "nobody")
    assert missing is None
    assert found is not None
    assert {rid for span in found.recording.spans if (rid := span.attributes.get(v.RID))} == {"mine"}
    assert sum(found.recording.have.values()) == len(engine.made.spans)


def test_a_request_may_have_spans_in_several_traces_and_share_them(tmp_path: Path) -> None:
    """Where the engine traces requests itself they have its traces, be it one for several requests; what ends late has the request's own."""
    story = Story()
    engine = story.engine()
    engine.request("a", 8)
    engine.request("b", 8, prompt="a", hit=4)
    for span in engine.made.spans:
        if span.document["name"] in (v.REQUEST_QUEUED, v.PREFETCH_GATE, v.PREFILL, v.REQUEST_FINISHED, v.PREFETCH_LOOKUP):
            span.document["traceId"] = "5" * 32
    folder = story.recording.write(tmp_path / "run")
    with opened(f"chdb:{folder}") as database:
        assert agree(folder, database) == 2


def test_missing_spans_are_told_from_columns_as_from_files(tmp_path: Path) -> None:
    """The ledger says how many there should be: the row that stands for it is not counted as one of them; a row that came twice counts once."""
    made = Recording()
    engine = made.engine()
    engine.span(v.REQUEST_QUEUED, 1, rid="a", attributes={v.PROMPT_TOKENS: 64})
    engine.span(v.PREFILL, 2, 3, rid="a", attributes={v.PREFIX_TOKENS: 0})
    folder = made.write(tmp_path / "run")
    file = next(folder.glob("spans-*"))
    file.write_text(file.read_text() * 2)
    ledger = next(folder.glob("ledger-*"))
    ledger.write_text(json.dumps({**json.loads(ledger.read_text()), "written": 3, "dropped": 2}))
    recorded = store.read([folder])
    assert (recorded.missing, recorded.dropped) == (1, 2)
    with opened(f"chdb:{folder}") as database:
        found = one(database, "a")
        assert found is not None
        for kept in (whole(database), found.recording):
            assert (kept.missing, kept.dropped, kept.incomplete, len(kept.spans)) == (1, 2, recorded.incomplete, 2)


@pytest.mark.parametrize(("value", "kind"), [("a", "str"), (5, "int"), (-704, "int"), (True, "bool"), (0.25, "float"), (3.0, "float"), (["a", "b=1"], "strs"), ([], "ints"), ([1, 2], "ints")], ids=repr)
def test_text_has_its_value_back(value: Any, kind: str) -> None:
    """Each kind of the vocabulary comes back as it was; so does what the Collector's exporter, written in Go, makes of it, and rotel's, written in Rust."""
    assert kinds.restored(kinds.as_text(value), kind) == value
    assert type(kinds.restored(kinds.as_text(value), kind)) is type(value)
    assert kinds.restored("3", "float") == 3.0
    assert kinds.restored('["\\u003ca\\u003e"]', "strs") == ["<a>"]
    assert kinds.restored('{"values":[{"stringValue":"<a>"}]}', "strs") == ["<a>"]
    assert kinds.restored('{"values":[{"intValue":"12"},{"intValue":7}]}', "ints") == [12, 7]
    assert kinds.restored('{"values":[{"intValue":"x"}]}', "ints") == '{"values":[{"intValue":"x"}]}'
    assert kinds.restored("no number", "int") == "no number"


def test_what_is_filled_into_a_question_stays_a_value() -> None:
    """Quotes and backslashes of a request id end no string; pieces of SQL are filled in turn."""
    assert filled("x = $id", "t", {"id": "a'; DROP TABLE t; --\\"}) == "x = 'a\\'; DROP TABLE t; --\\\\'"
    assert filled("-- says what\nFROM $TABLE WHERE $where", "t", {"where": Sql("rid IN $ids AND $RID = 1"), "ids": []}) == f"FROM `t` WHERE rid IN (NULL) AND '{v.RID}' = 1"
