"""`hicachectl export` from outside."""

import json
import os
from pathlib import Path

import pytest
from invoke import ROOT, hicachectl
from recordings import Recording

from hicachectl import store
from tracers import vocabulary as v

VERSIONS = ROOT / "tests" / "samples" / "versions"


def run(folder: Path) -> Path:
    """A recording of two engines."""
    made = Recording()
    for pid in (1, 2):
        made.engine(pid=pid).span(v.PREFILL, pid, pid + 1, rid="a")
    return made.write(folder)


def test_otlp_on_stdout_reads_as_the_recording_does(tmp_path: Path) -> None:
    """Lines of OTLP/JSON; a line that cannot be read is left out, and talk goes to stderr."""
    folder = run(tmp_path / "run")
    file = next(folder.glob("spans-host-a-1-*"))
    file.write_text("broken\n" + file.read_text())
    done = hicachectl("export", str(folder), "--to", "otlp")
    assert done.returncode == 0
    assert done.stderr == f"1 lines of {folder} cannot be read and are left out\nwrote 2 spans\n"
    (tmp_path / "copy.jsonl").write_text(done.stdout)
    there, here = store.read([tmp_path / "copy.jsonl"]), store.read([folder])
    assert [span.span_id for span in there.spans if span.name != v.LEDGER] == [span.span_id for span in here.spans]
    assert there.broken_lines == 0


@pytest.mark.parametrize("to", ["otlp", "perfetto"])
def test_lines_that_are_left_out_are_counted(to: str, tmp_path: Path) -> None:
    """How many lines of which recording are not in what was written, be they broken or cut."""
    folder = run(tmp_path / "run")
    file = next(folder.glob("spans-host-a-1-*"))
    file.write_text("broken\n{}\n" + file.read_text() + '{"resourceSpans":[')
    done = hicachectl("export", str(folder), "--to", to)
    assert (done.returncode, done.stderr) == (0, f"3 lines of {folder} cannot be read and are left out\nwrote 2 spans\n")


def test_perfetto_in_a_file_is_one_document(tmp_path: Path) -> None:
    """The file is JSON that a viewer opens; nothing else is left in its folder."""
    target = tmp_path / "out" / "trace.json"
    target.parent.mkdir()
    done = hicachectl("export", str(run(tmp_path / "run")), "--to", "perfetto", "--target", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    document = json.loads(target.read_text())
    assert sum(event["ph"] == "X" for event in document["traceEvents"]) == 2
    assert list(target.parent.iterdir()) == [target]


def test_a_target_that_is_no_file_is_written_to_and_stays_what_it_was(tmp_path: Path) -> None:
    """A pipe or a device such as /dev/null keeps its place, and a link keeps pointing at its file, which gets the new content."""
    folder, pipe, link, file = run(tmp_path / "run"), tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to(file)
    file.write_text("before")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert hicachectl("export", str(folder), "--to", "otlp", "--target", str(pipe)).returncode == 0
        assert b"resourceSpans" in reader.read()
    assert hicachectl("export", str(folder), "--to", "otlp", "--target", str(link)).returncode == 0
    assert pipe.is_fifo()
    assert link.readlink() == file
    assert "resourceSpans" in file.read_text()
    assert hicachectl("export", str(folder), "--to", "otlp", "--target", str(tmp_path)).returncode == 3


def test_stdin_can_be_exported(tmp_path: Path) -> None:
    """`-` reads lines from standard input."""
    text = next(run(tmp_path / "run").glob("spans-*")).read_bytes()
    done = hicachectl("export", "-", "--to", "perfetto", stdin=text)
    assert sum(event["ph"] == "X" for event in json.loads(done.stdout)["traceEvents"]) == 1


def test_wrong_input_gets_the_contracts_exit_code(tmp_path: Path) -> None:
    """Usage 2, not there or not reachable 3, unreadable 4; a file that was there before stays."""
    folder = run(tmp_path / "run")
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    (tmp_path / "kept.json").write_text("before")
    for code, words in (
        (2, [str(folder), "--to", "xml"]),
        (2, [str(folder)]),
        (2, [str(folder), "--to", "perfetto", "--target", "http://localhost:4318"]),
        (3, ["/no/run", "--to", "otlp"]),
        (3, [str(folder), "--to", "otlp", "--target", "http://127.0.0.1:1"]),
        (3, [str(folder), "--to", "otlp", "--target", "/no/folder/file"]),
        (4, [str(tmp_path / "bad.jsonl"), "--to", "perfetto", "--target", str(tmp_path / "kept.json")]),
        (4, [str(tmp_path / "bad.jsonl"), "--to", "otlp"]),
        (4, ["/dev/zero", "--to", "otlp"]),
        (2, [str(folder), "--to", "otlp", "--target", "http://[::1"]),
        (2, [str(folder), "--to", "otlp", "--target", "grpc://[::1"]),
        (3, [str(folder), "--to", "otlp", "--target", f"http://{'a' * 70}:4318"]),
    ):
        done = hicachectl("export", *words)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
    assert (tmp_path / "kept.json").read_text() == "before"


@pytest.mark.parametrize("version", sorted(path.name for path in VERSIONS.iterdir()))
def test_a_recording_of_the_real_engine_explains_the_same_from_lines_of_otlp(version: str, tmp_path: Path) -> None:
    """Ledgers become spans, so that schedulers that their parent killed are known to have ended in order there as well."""
    copy = tmp_path / "copy.jsonl"
    assert hicachectl("export", str(VERSIONS / version), "--to", "otlp", "--target", str(copy)).returncode == 0
    here, there = (json.loads(hicachectl("explain", str(run), "-o", "json", "--fail-on", "never").stdout) for run in (VERSIONS / version, copy))
    assert here["complete"], here["incomplete"]
    assert here["requests"]
    assert {**here, "runs": []} == {**there, "runs": []}


def test_a_verdict_tells_what_did_not_reach_the_collector(tmp_path: Path) -> None:
    """The recording is complete all the same; a copy that went through `export` tells the same number."""
    made = Recording()
    made.engine(pid=1).ledger(export={"sent": 1, "dropped": 6, "waiting": 0}).span(v.ENGINE_START, 1)
    folder, copy = made.write(tmp_path / "run"), tmp_path / "copy.jsonl"
    assert hicachectl("export", str(folder), "--to", "otlp", "--target", str(copy)).returncode == 0
    for run in (folder, copy):
        document = json.loads(hicachectl("explain", str(run), "-o", "json").stdout)
        assert (document["complete"], document["engines"][0]["export_dropped"]) == (True, 6)
    assert "6 spans did not reach the collector" in hicachectl("explain", str(folder)).stdout
