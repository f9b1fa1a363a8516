"""Trace events for the Perfetto UI."""

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from recordings import EPOCH_MS, Recording

from hicachectl import store
from hicachectl.export import perfetto
from tracers import vocabulary as v


def events(made: Recording, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The events of a recording by phase, through JSON as a viewer gets them."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in json.loads(json.dumps(list(perfetto.events(store.read([made.write(folder)]))))):
        found[event["ph"]].append(event)
    return found


def test_spans_are_complete_events_with_real_process_and_thread(tmp_path: Path) -> None:
    """Times are microseconds from the first span; names of processes and threads go before."""
    made = Recording()
    engine = made.engine(pid=4711, tp_rank=1)
    engine.span(v.PREFETCH_GATE, 10, 12, rid="a", attributes={v.PROMPT_TOKENS: 597})
    engine.span(v.STORE_PUT, 11.5, 11.75, thread=("backup", 4720), error=True)
    found = events(made, tmp_path)
    gate, put = found["X"]
    assert (gate["pid"], gate["tid"], gate["ts"], gate["dur"]) == (4711, 4711, 0, 2000)
    assert (put["pid"], put["tid"], put["ts"], put["dur"], put["cat"]) == (4711, 4720, 1500, 250, "error")
    assert gate["args"][v.PROMPT_TOKENS] == 597
    names = {(event["name"], event["tid"]): event["args"]["name"] for event in found["M"]}
    assert names["process_name", 0] == f"sglang TP1 host-a:4711:{EPOCH_MS - 1000}"
    assert names["thread_name", 4720] == "backup"


def test_a_request_is_a_flow_over_threads_and_engines(tmp_path: Path) -> None:
    """Its outermost spans are tied in time order; calls inside them and requests of one span are not."""
    made = Recording()
    one, two = made.engine(pid=1), made.engine(pid=2)
    gate = one.span(v.PREFETCH_GATE, 1, 2, rid="a")
    one.span(v.PREFETCH_ENQUEUE, 1.2, 1.4, rid="a", parent=gate)
    one.span(v.PREFETCH_LOOKUP, 3, 4, rid="a", thread=("prefetch", 9))
    two.span(v.PREFILL, 5, 6, rid="a")
    two.span(v.PREFILL, 7, 8, rid="b")
    found = events(made, tmp_path)
    steps = found["s"] + found["t"] + found["f"]
    assert [(step["ph"], step["pid"], step["tid"], step["ts"]) for step in steps] == [
        ("s", 1, 1, 0),
        ("t", 1, 9, 2000),
        ("f", 2, 2, 4000),
    ]
    assert {step["id"] for step in steps} == {1}


def test_engines_with_the_same_process_id_are_kept_apart(tmp_path: Path) -> None:
    """Two hosts may have the same process id: the second keeps its digits."""
    made = Recording()
    made.engine(pid=7, host="a").span(v.FLUSH, 1)
    made.engine(pid=7, host="b").span(v.FLUSH, 2)
    assert sorted(event["pid"] for event in events(made, tmp_path)["X"]) == [7, 10_000_007]


def test_events_of_one_track_never_overlap_without_nesting(tmp_path: Path) -> None:
    """A viewer can draw only what nests: spans that cross others of their thread get a track of their own."""
    made = Recording()
    engine = made.engine(pid=5)
    numbers = random.Random(7)
    for _ in range(300):
        start = numbers.uniform(0, 100)
        engine.span(v.STORE_GET, start, start + numbers.choice([0, 0.5, 5, 50]))
    found = events(made, tmp_path)
    assert len(found["X"]) == 300
    tracks = defaultdict(list)
    for event in found["X"]:
        tracks[event["tid"]].append((round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)))
    assert 5 in tracks
    for spans in tracks.values():
        for a, b in spans:
            assert not any(a < c < b < d for c, d in spans)


def test_a_thread_id_that_is_a_pointer_becomes_a_small_number(tmp_path: Path) -> None:
    """Viewers hold thread ids in 32 bits."""
    made = Recording()
    made.engine().span(v.FLUSH, 1, thread=("x", 140_000_000_000_000))
    (event,) = events(made, tmp_path)["X"]
    assert 0 <= event["tid"] < 2**31


def test_an_empty_recording_has_no_events(tmp_path: Path) -> None:
    """Nothing to draw is not an error."""
    assert events(Recording(), tmp_path) == {}
