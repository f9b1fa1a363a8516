"""What a process says that it saw and did not see."""

import errno
import json
import threading
from pathlib import Path

import pytest
import workshop
from workshop import traced

from tracers import vocabulary as v
from tracers.ledger import ABSENT, CHANGED, INSTALLED, MISSING, RETIRED, WAITING, Ledger, write


@pytest.fixture
def ledger() -> Ledger:
    """A ledger in which nothing has landed."""
    return Ledger(workshop.recorder(retire_after=1))


def test_points_are_told_by_how_their_targets_landed(ledger: Ledger) -> None:
    """A point with one target in place and one missing is both; it waits only when nothing of it is there."""
    for point, target, state in (
        ("a", "m:A.f", INSTALLED),
        ("a", "m:B.f", MISSING),
        ("b", "m:C.f", WAITING),
        ("c", "m:D.f", WAITING),
        ("c", "m:E.f", INSTALLED),
        ("d", "m:F.f", CHANGED),
        ("e", "m:G.f", ABSENT),
        ("e", "m:H.f", ABSENT),
        ("f", "m:I.f", ABSENT),
        ("f", "m:J.f", INSTALLED),
    ):
        ledger.land(point, target, state)
    assert {state: ledger.ids(state) for state in (INSTALLED, MISSING, CHANGED, WAITING, RETIRED)} == {
        INSTALLED: ["a", "c", "f"],
        MISSING: ["a", "e"],
        CHANGED: ["d"],
        WAITING: ["b"],
        RETIRED: [],
    }


def test_a_point_that_was_retired_is_no_longer_installed(ledger: Ledger) -> None:
    """After its faults a point is told as retired, in the file and in the span, with the number of its faults."""
    ledger.land("p", "m:f", INSTALLED)
    traced(lambda: None, ledger.recorder, after=lambda *_: 1 / 0)()
    assert (ledger.ids(RETIRED), ledger.ids(INSTALLED)) == (["p"], [])
    (row,) = ledger.document({})["points"]
    assert (row["state"], row["faults"], row["calls"]) == (RETIRED, 1, 1)
    told = dict(ledger.attributes())
    assert (told[v.POINTS_RETIRED], told[v.POINTS_FAULTY], told[v.POINTS_FAULTS], told[v.POINTS_INSTALLED]) == (["p"], ["p"], 1, 0)


def test_what_the_tree_in_use_has_nothing_of_is_not_missed(ledger: Ledger) -> None:
    """Once the class of the prefix tree is known, targets in the other classes are no loss."""
    ledger.land("p", "m:HiRadixCache.f", MISSING)
    ledger.land("p", "m:UnifiedRadixCache.f", INSTALLED)
    assert ledger.ids(MISSING) == ["p"]
    ledger.tree = "UnifiedRadixCache"
    assert ledger.ids(MISSING) == []


def test_everything_lost_is_one_number(ledger: Ledger) -> None:
    """Spans that found no room in the queue and spans that did not stay in the files are told together."""
    ledger.recorder.queue.dropped, ledger.lost = 3, 4
    assert (ledger.dropped, ledger.document({})["dropped"], dict(ledger.attributes())[v.DROPPED]) == (7, 7, 7)


def test_the_attributes_are_those_of_the_vocabulary(ledger: Ledger) -> None:
    """Every fact of the ledger's span has a key of the vocabulary, always in the same order."""
    keys = [key for key, _ in ledger.attributes()]
    assert set(keys) <= v.ATTRIBUTES.keys()
    ledger.land("p", "m:f", MISSING)
    assert [key for key, _ in ledger.attributes()] == keys


def test_a_reader_never_sees_half_a_ledger(tmp_path: Path) -> None:
    """While it is replaced again and again, whoever reads it finds a whole document."""
    path, stop, seen = tmp_path / "ledger-h-1-2.json", threading.Event(), []
    write(path, {"number": -1})

    def read() -> None:
        while not stop.is_set():
            seen.append(json.loads(path.read_text())["number"])

    reading = threading.Thread(target=read)
    reading.start()
    for number in range(200):
        write(path, {"number": number, "filling": "x" * 20_000})
    stop.set()
    reading.join()
    assert seen == sorted(seen)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a ledger that was written, on a disk that is full since."""
    path = tmp_path / "ledger-h-1-2.json"
    write(path, {"number": 1})
    grown = Path.write_bytes

    def refused(own: Path, data: bytes) -> None:
        grown(own, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refused)
    return path


def test_a_full_disk_still_gets_the_ledger_that_says_so(full: Path) -> None:
    """Where there is no room for a second file the old one is written over, and takes no more of the disk than before."""
    size = full.stat().st_size
    faults = ["spool: OSError: [Errno 28] No space left on device"] * 20
    write(full, {"number": 2, "faults": faults})
    write(full, {"number": 3})
    assert json.loads(full.read_text()) == {"number": 3}
    write(full, {"number": 2, "faults": faults})
    assert json.loads(full.read_text()) == {"number": 2, "faults": faults}
    assert full.stat().st_size == size
    assert [each.name for each in full.parent.iterdir()] == [full.name]


def test_a_ledger_that_has_outgrown_a_full_disk_leaves_the_last_whole_one(full: Path) -> None:
    """When a new ledger finds no room at all the old one stays, and nothing is left beside it."""
    with pytest.raises(OSError, match="No space"):
        write(full, {"number": 2, "filling": "x" * 20_000})
    assert json.loads(full.read_text()) == {"number": 1}
    assert [each.name for each in full.parent.iterdir()] == [full.name]


def test_a_scheduler_is_one_though_its_first_reader_failed(ledger: Ledger) -> None:
    """The reader that says so may be the one that fails: then its fault says it."""
    assert not ledger.is_scheduler
    ledger.recorder.fault("engine.start", ValueError())
    assert ledger.is_scheduler
    assert (ledger.document({})["scheduler"], dict(ledger.attributes())[v.SCHEDULER]) == (True, True)


def test_a_get_hangs_only_as_long_as_its_return_can_be_seen(ledger: Ledger) -> None:
    """Once the reader of gets has failed, one that returned would seem to hang for ever: nothing is told."""
    ledger.running = lambda: ["1 r k"]
    assert (ledger.document({})["running"], dict(ledger.attributes())[v.RUNNING]) == (["1 r k"], ["1 r k"])
    ledger.recorder.fault("mooncake.batch_get", ValueError())
    assert (ledger.document({})["running"], dict(ledger.attributes())[v.RUNNING]) == ([], None)
