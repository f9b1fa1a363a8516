"""`hicachectl show` from outside."""

from pathlib import Path

import pytest
from invoke import document, hicachectl
from recordings import EPOCH_MS, Recording, page_keys

from hicachectl.exits import UsageError
from hicachectl.store.when import moment
from tracers import vocabulary as v

RUNGS = ["backend_created", "written", "found", "transfer_done", "published", "loaded_back", "prefix_reused"]


def a_recording(folder: Path) -> Path:
    """Two requests of 40 tokens with pages of 16: one reuses 32 from the device, one computes all."""
    made = Recording()
    engine = made.engine()
    engine.span(v.ENGINE_START, 0, attributes={v.TP_RANK: 0, v.TP_SIZE: 1, v.PAGE_SIZE: 16, v.DEVICE: "cpu"})
    engine.span(v.ENGINE, 0, 5, attributes={v.OUTCOME: v.OK, v.PAGE_SIZE: 16})
    for batch, (rid, at, prefix) in enumerate((("alpha-1", 1000, 32), ("beta-2", 9000, 0)), start=1):
        keys = page_keys(f"{rid}-0", f"{rid}-1")
        engine.span(
            v.REQUEST_QUEUED, at, rid=rid, attributes={v.PROMPT_TOKENS: 40, v.PAGE_SIZE: 16, v.PROMPT_PAGE_KEYS: keys}
        )
        gate = {
            v.PROMPT_TOKENS: 40,
            v.MATCHED_DEVICE: prefix,
            v.MATCHED_HOST: 0,
            v.REASON: "R04",
            v.OUTCOME: v.DECLINED,
        }
        engine.span(v.PREFETCH_GATE, at + 1, rid=rid, attributes=gate)
        told = {
            v.PREFIX_TOKENS: prefix,
            v.EXTEND_TOKENS: 40 - prefix,
            v.PROMPT_TOKENS: 40,
            v.FIRST_CHUNK: True,
            v.BATCH: batch,
        }
        engine.span(v.PREFILL, at + 2, rid=rid, attributes=told)
        engine.span(v.FORWARD, at + 3, at + 8, attributes={v.BATCH: batch})
        engine.span(v.EXECUTED, at + 8, attributes={v.BATCH: batch})
        engine.span(v.REQUEST_FINISHED, at + 10, rid=rid, attributes={v.PROMPT_TOKENS: 40, v.CACHED_TOKENS: prefix})
    return made.write(folder)


def test_all_requests_are_one_table(tmp_path: Path) -> None:
    """A row a request: tokens by tier, the three headline rungs, how long it took."""
    run = a_recording(tmp_path / "run")
    lines = hicachectl("show", str(run)).stdout.splitlines()
    alpha, beta = lines[1].split(), lines[2].split()
    assert alpha[2:9] == ["alpha-1", "0", "host-a:101", "40", "32", "0", "0"]
    assert (alpha[9], beta[9]) == ("8", "40")
    assert alpha[-3:] == ["yes", "10.0", "ms"]
    assert beta[-3] == "no"


def test_the_document_holds_rows_with_their_ladder(tmp_path: Path) -> None:
    """The same facts for a script."""
    run = a_recording(tmp_path / "run")
    told = document(hicachectl("show", str(run), "-o", "json"))
    assert (told["schema"], told["runs"], told["complete"]) == ("hicachectl/show/1", [str(run)], True)
    first = told["requests"][0]
    assert first["tokens"] == {"reused": {"device": 32, "host": 0, "storage": 0}, "computed": 8}
    assert sorted(first["ladder"]) == sorted(RUNGS)
    assert told["spans"] == {}


def test_one_request_is_shown_span_by_span(tmp_path: Path) -> None:
    """By its id or by what its id begins with; its batch is there though it carries no id."""
    run = a_recording(tmp_path / "run")
    shown = hicachectl("show", str(run), "--request", "alp").stdout
    assert shown.startswith("alpha-1 in host-a:101:")
    assert [line.split()[4] for line in shown.splitlines()[2:]] == [
        "request.queued", "prefetch.gate", "reuse.prefill", "reuse.forward", "reuse.executed", "request.finished",
    ]  # fmt: skip
    told = document(hicachectl("show", str(run), "--request", "alpha-1", "-o", "json"))
    assert [span["name"] for span in told["spans"]["alpha-1"]][:2] == [v.REQUEST_QUEUED, v.PREFETCH_GATE]
    assert told["spans"]["alpha-1"][0]["attributes"][v.PROMPT_TOKENS] == 40


def test_requests_are_filtered_by_time_and_code(tmp_path: Path) -> None:
    """Times are absolute or so long ago; a code that exists but nobody has leaves nothing."""
    run = a_recording(tmp_path / "run")

    def rids(*words: str) -> list[str]:
        return [row["rid"] for row in document(hicachectl("show", str(run), *words, "-o", "json"))["requests"]]

    assert rids("--since", "2025-11-24T16:00:05Z") == ["beta-2"]
    assert rids("--until", "2025-11-24T16:00:05Z") == ["alpha-1"]
    assert rids("--since", "1s") == []
    assert rids("--code", "HC-R16") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--request", "gamma"], 2, "gamma"),
        (["--since", "yesterday"], 2, "--since"),
        (["--code", "Z99"], 2, "Z99"),
        (["/no/run"], 3, "/no/run"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    """One sentence and the contract's code."""
    run = a_recording(tmp_path / "run")
    done = hicachectl("show", *([] if words[0].startswith("/") else [str(run)]), *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_incomplete_recording_is_called_so(tmp_path: Path) -> None:
    """What may be missing is talk, beside the table."""
    made = Recording()
    made.engine().ledger(dropped=3, closed=False).span(v.FLUSH, 1)
    done = hicachectl("show", str(made.write(tmp_path)))
    assert (done.returncode, done.stdout) == (0, "")
    assert "dropped 3 spans" in done.stderr


def test_times_are_read_as_a_person_writes_them() -> None:
    """An ISO time with or without a zone, or how long ago; anything else is a matter of usage."""
    now = EPOCH_MS * 1_000_000
    assert moment("10m", "--since", now) == now - 600 * 10**9
    assert moment("1.5h", "--since", now) == now - 5400 * 10**9
    assert moment("2025-11-24T16:00:00Z", "--since", 0) == now
    assert moment("2025-11-24T17:00:00+01:00", "--since", 0) == now
    for text in ("", "x", "10", "99999-01-01", "-5m"):
        with pytest.raises(UsageError, match="--until"):
            moment(text, "--until", now)
