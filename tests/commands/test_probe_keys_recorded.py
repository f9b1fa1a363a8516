"""`hicachectl probe-keys --run --request`: a recorded request, asked for under its own keys."""

import json
from pathlib import Path

from recordings import Recording
from test_probe_keys import PAGES, answering, old_store, run

from tracers import vocabulary as v


def recording(tmp_path: Path) -> Path:
    """A recording of one request of 80 tokens, in an engine of two ranks."""
    made = Recording()
    for rank in (0, 1):
        engine = made.engine(pid=101 + rank, tp_rank=rank)
        suffixes = [f"_{rank}_k", f"_{rank}_v"]
        engine.span(v.ENGINE_START, 0, 1, attributes={v.PAGE_SIZE: 16, v.TP_SIZE: 2, v.TP_RANK: rank})
        engine.span(v.BACKEND_OPEN, 2, 3, attributes={v.KEY_PREFIX: "blue_", v.KEY_SUFFIXES: suffixes})
        engine.span(v.CONTROLLER_OPEN, 4, 5, attributes={v.THRESHOLD: 32})
        engine.span(
            v.REQUEST_QUEUED, 10, 11, rid="abc-1", attributes={v.PROMPT_TOKENS: 80, v.PROMPT_PAGE_KEYS: "".join(PAGES)}
        )
    return made.write(tmp_path / "run")


def test_a_recorded_request_is_asked_for_under_its_own_keys(tmp_path: Path):
    """--run and --request take page keys, prefix, ranks and threshold from the recording, and need no tokens."""
    there = [f"blue_{page}_{rank}_{part}" for page in PAGES[:3] for rank in (0, 1) for part in "kv"]
    with answering.server(old_store(there)) as url:
        words = (
            "--run",
            str(recording(tmp_path)),
            "--request",
            "abc",
            "--master",
            "127.0.0.1:1",
            "--admin",
            url,
            "--why",
        )
        found = json.loads(run(*words, "-o", "json").stdout)
    assert [each["key"] for each in found["pages"][0]["objects"]] == there[:4]
    assert [(each["tp_rank"], each["part"]) for each in found["pages"][0]["objects"]] == [
        (0, "k"),
        (0, "v"),
        (1, "k"),
        (1, "v"),
    ]
    assert (found["contiguous_pages"], found["engine_would"]["tokens"]) == (3, 48)
    assert any("needs the tokens" in line for line in found["remarks"])


def test_an_unknown_request_of_a_recording_is_usage(tmp_path: Path):
    """A request id that no request has, or begins with, is exit 2."""
    assert "show" in run("--run", str(recording(tmp_path)), "--request", "zzz", "--no-store", code=2).stderr
