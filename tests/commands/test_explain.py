"""The command line of explain: what it refuses, and how."""

import json
from pathlib import Path

import invoke
from recordings import Recording

from tracers import vocabulary as v


def test_a_recording_without_an_engine_is_not_a_healthy_one(tmp_path: Path) -> None:
    """Exit 3 and one sentence where a command started no engine, instead of no findings."""
    recording = Recording()
    recording.engine(scheduler=False)
    done = invoke.hicachectl("explain", str(recording.write(tmp_path / "run")))
    assert done.returncode == 3
    assert "no engine left anything" in done.stderr
    assert done.stdout == ""


def test_an_unknown_code_is_a_usage_error(tmp_path: Path) -> None:
    """Exit 2 for --code ZZ99, before anything is read."""
    done = invoke.hicachectl("explain", str(tmp_path), "--code", "ZZ99")
    assert done.returncode == 2
    assert "ZZ99" in done.stderr


def test_a_request_that_was_aborted_in_the_queue_has_no_account_and_says_so(tmp_path: Path) -> None:
    """Nulls instead of sums that do not add up, and the abort as a finding."""
    recording = Recording()
    engine = recording.engine()
    engine.span(v.ENGINE_START, 0, 0, attributes={v.TP_RANK: 0, v.TP_SIZE: 1, v.ASKED_BACKEND: "mooncake", v.PAGE_SIZE: 16})
    engine.span(v.REQUEST_QUEUED, 1, 2, rid="gone", attributes={v.PROMPT_TOKENS: 300})
    engine.span(v.PREFETCH_ABORT, 3, 4, rid="gone", attributes={v.REASON: "R25"})
    done = invoke.hicachectl("explain", str(recording.write(tmp_path / "run")), "-o", "json")
    document = json.loads(done.stdout)
    row = document["requests"][0]
    assert row["prompt_tokens"] == 300
    assert row["tokens"]["computed"] is None
    assert row["tokens"]["reused"] == {"device": None, "host": None, "storage": None}
    assert "aborted" in row["verdict"]
    assert [finding["code"] for finding in document["findings"]] == ["HC-R25"]


def test_what_no_span_said_of_an_engine_is_not_made_up(tmp_path: Path) -> None:
    """A recording whose spans are all lost names no page size."""
    recording = Recording()
    recording.engine().ledger(written=3)
    run = recording.write(tmp_path / "run")
    done = invoke.hicachectl("explain", str(run), "-o", "json")
    assert [each["page_size"] for each in json.loads(done.stdout)["engines"]] == [None]
    assert "page size ?" in invoke.hicachectl("explain", str(run)).stdout
