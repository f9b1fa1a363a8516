"""What a recording that began in a running engine may say: what was not seen is unknown, never a wrong no."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stories import Story

from hicachectl import store
from hicachectl.diagnosis.run import Diagnosis, diagnose
from hicachectl.model.engine import NO, UNKNOWN
from hicachectl.views import explain, explained, judged
from tracers import vocabulary as v
from tracers.built import READ_LATE
from tracers.points import ALL

SAMPLES = sorted(path.parent for path in (Path(__file__).parent.parent / "samples").rglob("run.json"))
IN_FORCE = {point.span for point in ALL if point.id in READ_LATE}
CUTS = 12


def told(found: Diagnosis) -> dict[tuple[str, str], dict[str, str]]:
    """(engine's process, request) -> rung -> value, of requests whose id came once."""
    rows = [(each.journey.attempt, each) for each in found.requests]
    names = [attempt.rid for attempt, _ in rows]
    return {(str(attempt.engine.pid), attempt.rid): {name: rung.state for name, rung in each.ladder.items()} for attempt, each in rows if names.count(attempt.rid) == 1}


def windows(run: Path) -> Iterator[tuple[int, int]]:
    """Times at which somebody may have attached and detached: between the calls of the recording."""
    times = sorted({time for span in store.read([run]).spans for time in (span.start_ns, span.end_ns)})
    steps = [times[len(times) * index // CUTS] for index in range(CUTS)] + [times[-1] + 1]
    for index, begin in enumerate(steps):
        yield from ((begin, end) for end in steps[index + 1 :: 3])


def attached(run: Path, folder: Path, begin: int, end: int) -> Path:
    """The recording as an attach from BEGIN to END would have made it: calls that lie between, and the settings in force."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text((run / "run.json").read_text())
    for path in run.glob("spans-*.jsonl"):
        kept, settings = [], {}
        for text in path.read_text().splitlines():
            line = json.loads(text)
            scope = line["resourceSpans"][0]["scopeSpans"][0]
            for span in scope["spans"]:
                if span["name"] in IN_FORCE and int(span["startTimeUnixNano"]) < begin:
                    settings[span["name"]] = {**span, "startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin), "attributes": [*span["attributes"], {"key": v.IN_FORCE, "value": {"boolValue": True}}]}
            scope["spans"] = [span for span in scope["spans"] if begin <= int(span["startTimeUnixNano"]) and int(span["endTimeUnixNano"]) <= end and span["name"] != v.LEDGER]
            kept.append(line)
        kept[0]["resourceSpans"][0]["scopeSpans"][0]["spans"] += settings.values()
        (folder / path.name).write_text("".join(json.dumps(line) + "\n" for line in kept))
        written = sum(len(line["resourceSpans"][0]["scopeSpans"][0]["spans"]) for line in kept)
        name = f"{path.stem.replace('spans', 'ledger', 1)}.json"
        if (run / name).exists():
            ledger: dict[str, Any] = json.loads((run / name).read_text())
            (folder / name).write_text(json.dumps({**ledger, "written": written, "closed": True, "attached_ms": begin // 1_000_000}))
    return folder


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
def test_whenever_somebody_attaches_and_detaches_no_rung_is_a_wrong_no(run: Path, tmp_path: Path) -> None:
    """Over windows of recordings of the real engine: a rung that the whole recording does not call no, and does not leave open, is never no."""
    whole = told(diagnose(store.read([run])))
    compared = 0
    for number, (begin, end) in enumerate(windows(run)):
        found = diagnose(store.read([attached(run, tmp_path / str(number), begin, end)]))
        for request, ladder in told(found).items():
            for name, state in ladder.items():
                known = whole.get(request, {}).get(name, UNKNOWN)
                compared += 1
                assert state != NO or known in (NO, UNKNOWN), f"{request} {name} is {state}, was {known}, window {number}: {begin} to {end}"
        assert not [each.code for each in found.findings if each.level == "error" and each.code not in {one.code for one in diagnose(store.read([run])).findings}]
    assert compared or not whole


def late() -> Story:
    """An engine of which only settings were read, at an attach."""
    story = Story()
    serving = story.engine()
    made = serving.made
    for span in made.spans:
        span.document["attributes"].append({"key": v.IN_FORCE, "value": {"boolValue": True}})
    made.spans = [span for span in made.spans if span.document["name"] in IN_FORCE]
    made.ledger(attached_ms=story.recording.epoch_ms + 10)
    return story


def test_how_a_backend_was_created_is_unknown_and_its_settings_are_not(tmp_path: Path) -> None:
    """`backend_created` is unknown and the engine says why; requests are judged with the page size and keys in force."""
    story = late()
    story.engines[0].request("a", pages=8).request("b", pages=8, prompt="a", hit=8)
    found = diagnose(store.read([story.recording.write(tmp_path / "run")]))
    ladders = {rid: ladder for (_, rid), ladder in told(found).items()}
    assert ladders["a"] == {"backend_created": "unknown", "written": "yes", "found": "no", "transfer_done": "not_asked", "published": "not_asked", "loaded_back": "not_asked", "prefix_reused": "no"}
    assert {name for name, state in ladders["b"].items() if state == "yes"} == {"found", "transfer_done", "published", "loaded_back", "prefix_reused"}
    head = judged.head_row(found.world)
    document = json.loads("".join(explained.as_json(head, [], list)))
    assert document["engines"][0]["attached"] == {"at_ms": story.recording.epoch_ms + 10, "requests_left_out": 0}
    assert document["complete"]
    text = "".join(explain.as_text(head, map(judged.request_row, found.requests), list, width=None, colour=False))
    assert "attached after start: how its backend was created was not seen" in text
    assert "backend unknown (attached after start), nothing reused" in text


def test_a_request_that_had_begun_before_is_left_out_and_counted(tmp_path: Path) -> None:
    """Its later half would be taken for all of it; a request with the same id that comes afterwards is told by itself."""
    story = late()
    serving = story.engines[0]
    serving.request("half", pages=8)
    names = (v.REQUEST_QUEUED, v.PREFETCH_GATE, v.PREFETCH_ENQUEUE)
    serving.made.spans = [span for span in serving.made.spans if span.document["name"] not in names]
    serving.request("half", pages=8)
    found = diagnose(store.read([story.recording.write(tmp_path / "run")]))
    assert [each.journey.attempt.rid for each in found.requests] == ["half"]
    assert found.requests[0].ladder["found"].state != UNKNOWN
    (engine,) = [each for each in found.world.engines.values() if each.scheduler]
    assert engine.left_out == 1
    text = "".join(explain.as_text(judged.head_row(found.world), [], list, width=None, colour=False))
    assert "1 requests that had begun before are left out" in text


@pytest.mark.parametrize("last", [v.WRITE_BACKUP, v.WRITE_HOST_DONE, v.WRITE_ENQUEUE, v.PREFILL], ids=str)
def test_a_write_that_was_under_way_at_the_detach_is_unknown(last: str, tmp_path: Path) -> None:
    """The engine goes on and may have written the pages unseen; where everything was seen, no means no."""
    story = late()
    serving = story.engines[0]
    serving.request("a", pages=8, backup_reason="W06" if last == v.PREFILL else None)
    names = [span.document["name"] for span in serving.made.spans]
    assert names.count(last) == 1
    whole = diagnose(store.read([story.recording.write(tmp_path / "whole")]))
    assert whole.requests[0].ladder["written"].state == ("no" if last == v.PREFILL else "yes")
    serving.made.spans = serving.made.spans[: names.index(last) + 1]
    found = diagnose(store.read([story.recording.write(tmp_path / "cut")]))
    assert found.requests[0].ladder["written"].state == UNKNOWN


def test_a_collector_tells_of_the_attach_as_the_file_does(tmp_path: Path) -> None:
    """The ledger's span carries when it was, and the blind points."""
    story = late()
    made = story.engines[0].made
    made.without_ledger()
    made.span(v.LEDGER, 50, attributes={v.ATTACHED: 77, v.POINTS_BLIND: ["write.thread"], v.SCHEDULER: True, v.CLOSED: True, v.WRITTEN: len(made.spans) + 1})
    (engine,) = diagnose(store.read([story.recording.write(tmp_path / "run")])).world.engines.values()
    assert (engine.attached_ms, engine.blind) == (77, ["write.thread"])


def test_a_blind_point_makes_its_rungs_unknown(tmp_path: Path) -> None:
    """A method that somebody held when the attach came may have been called unseen."""
    story = late()
    story.engines[0].made.point("mooncake.batch_get", "blind")
    story.engines[0].request("a", pages=8).request("b", pages=8, prompt="a", hit=8)
    found = diagnose(store.read([story.recording.write(tmp_path / "run")]))
    assert {each.ladder["transfer_done"].state for each in found.requests} == {UNKNOWN}
    assert {each.ladder["prefix_reused"].state for each in found.requests} == {"no", "yes"}
