"""What `trace` writes itself: whole lines, and never to what somebody else has put in the place of its files."""

import json
import os
import resource
import signal
from pathlib import Path

import pytest

from hicachectl.recorder.journal import Journal
from tracers import vocabulary as v


@pytest.mark.parametrize("named", ["spans", "ledger"])
def test_a_link_in_the_place_of_a_file_is_not_followed(named: str, tmp_path: Path) -> None:
    """Where root records another user's engine, the folder is that user's: a link there must not have root write to where it points."""
    precious, folder = tmp_path / "precious", tmp_path / "run"
    folder.mkdir()
    precious.write_text("before")
    journal = Journal(folder)
    (ledger,) = folder.glob("ledger-*.json")
    stem = ledger.name.removeprefix("ledger-").removesuffix(".json")
    (folder / (f"spans-{stem}.jsonl" if named == "spans" else f"ledger-{stem}.tmp")).symlink_to(precious)
    journal.span(v.STORE_SAMPLE, 1, 2, {})
    journal.save(closed=False)
    assert precious.read_text() == "before"
    told = json.loads(ledger.read_text())
    assert (told["written"], told["dropped"]) == ((0, 1) if named == "spans" else (1, 0))


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """What cannot be written is counted."""
    journal = Journal(tmp_path)
    (ledger,) = tmp_path.glob("ledger-*.json")
    os.mkfifo(tmp_path / ledger.name.replace("ledger-", "spans-").replace(".json", ".jsonl"))
    journal.span(v.STORE_SAMPLE, 1, 2, {})
    assert (journal.written, journal.dropped) == (0, 1)


def test_a_full_disk_leaves_whole_lines_and_the_last_ledger(tmp_path: Path) -> None:
    """A line of which only a part fits is taken back, the ledger before stays, and no half file is left."""
    journal = Journal(tmp_path)
    journal.span(v.STORE_SAMPLE, 1, 2, {})
    (spans,) = tmp_path.glob("spans-*")
    whole, (soft, hard) = spans.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 100, hard))
    try:
        journal.span(v.STORE_SAMPLE, 1, 2, {})
        for number in range(20):
            journal.fault(f"trouble {number} " * 20)
        journal.save(closed=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert spans.read_bytes() == whole
    assert (journal.written, journal.dropped) == (1, 2)
    (ledger,) = tmp_path.glob("ledger-*")
    assert json.loads(ledger.read_text())["written"] == 0
