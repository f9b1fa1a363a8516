"""The writer thread: everything that was recorded is in the files or counted, whatever the disk does, and nobody waits for it."""

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from workshop import point, traced

from hicachectl import store
from hicachectl.exits import UnreachableError
from tracers import parts, spool
from tracers import vocabulary as v
from tracers.around import Recorder
from tracers.encode import shapes
from tracers.guard import Guard
from tracers.ledger import INSTALLED, Ledger
from tracers.read.reuse import before_forward
from tracers.record import Late, Queue
from tracers.settings import Settings
from tracers.spool import Spool

ROW = {"attributes": (v.TOKENS,), "after": lambda _a, _k, _s, result, _e: (result,)}


class Process:
    """What the plugin makes of a process, with one row."""

    def __init__(self, folder: Path, *, queue: int = 1000, part_bytes: int = 1 << 20, keep: int = 7, **row: Any) -> None:
        self.recorder = Recorder(Queue(queue, 1000), Guard())
        self.recorder.guard.loud = False
        self.ledger = Ledger(self.recorder)
        settings = Settings(folder=folder, queue=queue, detail=1000, part_bytes=part_bytes, parts=keep, service="test")
        self.spool = Spool(settings, self.recorder, self.ledger)
        told = ROW | row
        self.spool.learn(shapes([point(**told)]))
        self.ledger.land("p", "m:f", INSTALLED)
        self.call: Callable[[Any], Any] = traced(lambda number: number, self.recorder, **told)

    def document(self) -> dict[str, Any]:
        """The ledger's file."""
        (path,) = self.spool.folder.glob("ledger-*.json")
        return dict(json.loads(path.read_text()))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """A process with a running writer."""
    made = Process(tmp_path / "run")
    made.spool.start()
    yield made
    made.spool.close()


def until(true: Callable[[], Any], seconds: float = 20) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def numbers(run: Path) -> list[Any]:
    """The values that were recorded."""
    return [span.attributes[v.TOKENS] for span in store.read([run]).spans if span.name == v.FLUSH]


def test_everything_that_waited_at_the_end_is_written(process: Process) -> None:
    """An orderly end writes what is queued, in order, and a ledger that says so: the recording is complete."""
    for number in range(500):
        process.call(number)
    process.spool.close()
    found = store.read([process.spool.folder])
    assert numbers(process.spool.folder) == list(range(500))
    assert found.incomplete == []
    document = process.document()
    assert (document["closed"], document["dropped"], document["faults"]) == (True, 0, [])
    assert document["points"] == [{"id": "p", "target": "m:f", "state": INSTALLED, "detail": "", "calls": 500, "spans": 500, "faults": 0}]
    assert document["written"] == len(found.spans)


def test_spans_are_in_the_file_within_a_moment(process: Process) -> None:
    """A span is readable long before a second has passed, so a sudden death costs less than that."""
    process.call(1)
    began = time.monotonic()
    until(lambda: list(process.spool.folder.glob("spans-*")) and numbers(process.spool.folder) == [1])
    assert time.monotonic() - began < 1


def test_an_open_ledger_is_written_beside_the_spans(process: Process) -> None:
    """While the process lives its ledger says that it has not ended, which makes a recording that ends here incomplete."""
    process.call(1)
    until(lambda: list(process.spool.folder.glob("ledger-*")))
    found = store.read([process.spool.folder])
    assert [reason for reason in found.incomplete if "did not end in order" in reason]


def test_a_process_without_spans_leaves_nothing(tmp_path: Path) -> None:
    """A process that did nothing, and found no folder, makes none."""
    made = Process(tmp_path / "run")
    made.spool.start()
    made.spool.close()
    assert not (tmp_path / "run").exists()


def test_the_ledger_of_a_parent_says_when_it_ended_its_schedulers(process: Process) -> None:
    """A parent without spans that ends its schedulers leaves a ledger where there is a recording, and says so at once."""
    process.spool.folder.mkdir()
    process.spool.say_end(123)
    assert process.document()["ended_ms"] == 123


def test_the_ledger_is_repeated_as_a_span(process: Process) -> None:
    """A recording that went through a collector has the facts of the ledger as a span, and says the same without the file."""
    process.call(1)
    process.spool.close()
    (ledger,) = process.spool.folder.glob("ledger-*.json")
    ledger.unlink()
    found = store.read([process.spool.folder])
    assert found.incomplete == []
    (told,) = found.ledgers.values()
    assert (told.closed, told.installed, told.dropped) == (True, 1, 0)


def test_resource_tells_host_process_versions_and_ranks(process: Process) -> None:
    """Every line says whose spans they are; ranks appear once they are known."""
    process.call(1)
    until(lambda: process.spool.parts.spans)
    process.spool.ranks = {"tp": 3, "pp": 0}
    process.call(2)
    process.spool.close()
    (resource,) = store.read([process.spool.folder]).resources.values()
    assert (resource[v.R_PID], resource[v.R_ENGINE], resource[v.R_TP_RANK]) == (process.spool.pid, process.spool.engine, 3)
    assert (resource[v.R_SERVICE], resource[v.R_VERSION]) == ("test", v.RECORDING_VERSION)
    first = next(iter(process.spool.folder.glob("spans-*"))).read_text().splitlines()[0]
    assert v.R_TP_RANK not in first


def test_a_recording_at_its_bound_is_complete_in_what_it_holds(tmp_path: Path) -> None:
    """What was rotated out is counted as dropped and nothing is counted as missing; calls go on; the newest spans are there."""
    made = Process(tmp_path / "run", part_bytes=4000, keep=2)
    made.spool.start()
    for number in range(600):
        made.call(number)
        if not number % 3:
            time.sleep(0.001)
            until(lambda: not made.recorder.queue.records)
    made.spool.close()
    files = list((tmp_path / "run").glob("spans-*"))
    # A batch is never split, so a line may be longer than a part by itself.
    longest = max(len(line) for file in files for line in file.read_bytes().splitlines(keepends=True))
    assert sum(file.stat().st_size for file in files) <= 3 * max(4000, longest)
    found = store.read([tmp_path / "run"])
    have = numbers(tmp_path / "run")
    assert have == list(range(600 - len(have), 600))
    assert found.missing == 0
    assert found.dropped > 0
    assert found.dropped + len(found.spans) >= 600
    assert [reason for reason in found.incomplete if "dropped" in reason]


def test_spans_that_are_not_in_a_rotated_recording_are_told_missing(tmp_path: Path) -> None:
    """When a part of a recording that was rotated is taken away, the ledger's count shows it."""
    made = Process(tmp_path / "run", part_bytes=2000, keep=2)
    made.spool.start()
    for number in range(100):
        made.call(number)
        until(lambda: not made.recorder.queue.records)
    made.spool.close()
    before = store.read([tmp_path / "run"])
    next((tmp_path / "run").glob("spans-*.1")).unlink()
    after = store.read([tmp_path / "run"])
    assert before.missing == 0
    assert after.missing == len(before.spans) - len(after.spans) > 0


def test_a_long_line_is_ended(tmp_path: Path) -> None:
    """Spans with much detail do not make lines without end."""
    made = Process(tmp_path / "run", part_bytes=1 << 30, after=lambda *_: ("x" * 100_000,), attributes=(v.MESSAGE,))
    for number in range(100):
        made.call(number)
    made.spool.flush(final=True)
    (file,) = (tmp_path / "run").glob("spans-*")
    lengths = [len(line) for line in file.read_bytes().splitlines()]
    assert max(lengths) < spool.LINE_CHARACTERS + spool.BATCH * 110_000
    assert len(lengths) > 2


def test_nonsense_of_a_reader_is_lost_counted_and_retires_the_point(tmp_path: Path) -> None:
    """Readers whose values cannot be written cost their own spans: the ledger names the point, and it is switched off."""
    made = Process(tmp_path / "run", after=lambda *_: (object(),))
    made.ledger.scheduler = True
    made.spool.start()
    for number in range(50):
        made.call(number)
        until(lambda: not made.recorder.queue.records)
    made.spool.close()
    document = made.document()
    (row,) = document["points"]
    assert (row["state"], row["faults"], row["spans"]) == ("retired", 5, 0)
    assert document["dropped"] == 5
    assert document["faults"] == ["p: TypeError: a object is no attribute's value"]
    assert row["calls"] == 5


def test_a_reader_that_fails_is_named_in_the_ledger_and_in_the_recording(tmp_path: Path) -> None:
    """A fault is told with its point, so that a verdict can say what was not seen."""
    made = Process(tmp_path / "run", after=lambda _a, _k, _s, result, _e: (1 / result,))
    made.spool.start()
    for number in (1, 0, 1):
        made.call(number)
    made.spool.close()
    assert made.document()["faults"] == ["p: ZeroDivisionError: division by zero"]
    (told,) = store.read([tmp_path / "run"]).ledgers.values()
    assert told.faulty == ["p"]
    last = [span for span in store.read([tmp_path / "run"]).spans if span.name == v.LEDGER][-1]
    assert (last.attributes[v.POINTS_FAULTY], last.attributes[v.POINTS_FAULTS]) == (["p"], 1)


def test_a_process_whose_every_reader_fails_still_leaves_its_ledger(tmp_path: Path) -> None:
    """With no span to write, the faults are told all the same, in the file and as a span."""
    made = Process(tmp_path / "run", after=lambda *_: 1 / 0)
    made.spool.start()
    made.call(1)
    made.spool.close()
    assert made.document()["faults"] == ["p: ZeroDivisionError: division by zero"]
    (told,) = store.read([tmp_path / "run"]).spans
    assert (told.name, told.attributes[v.POINTS_FAULTY]) == (v.LEDGER, ["p"])


def test_a_full_queue_is_told(tmp_path: Path) -> None:
    """Spans that found no room are counted in the ledger, and the recording says that it is not all."""
    made = Process(tmp_path / "run", queue=10)
    for number in range(100):
        made.call(number)
    made.spool.start()
    made.spool.close()
    assert (numbers(tmp_path / "run"), made.document()["dropped"]) == (list(range(10)), 90)
    assert [reason for reason in store.read([tmp_path / "run"]).incomplete if "dropped 90" in reason]


class BadDisk:
    """A disk that refuses lines for as long as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuses = True
        self.asked = 0
        append = parts.Parts._append

        def appended(own: parts.Parts, line: bytes) -> None:
            self.asked += 1
            if self.refuses:
                raise OSError(28, "No space left on device")
            append(own, line)

        monkeypatch.setattr(parts.Parts, "_append", appended)


def test_a_full_disk_costs_spans_but_no_call_and_no_wait(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full spans are counted as lost and the disk is left alone for a while; with room again, spans are written again."""
    monkeypatch.setattr(spool, "PATIENCE", 0.2)
    disk = BadDisk(monkeypatch)
    began = time.monotonic()
    for number in range(200):
        assert process.call(number) == number
        time.sleep(0.001)
    until(lambda: process.ledger.lost == 200)
    assert disk.asked <= 2 + (time.monotonic() - began) / 0.2
    disk.refuses = False
    time.sleep(0.25)
    process.call(777)
    process.spool.close()
    document = process.document()
    assert numbers(process.spool.folder) == [777]
    assert (document["dropped"], document["closed"]) == (200, True)
    assert [text for text in document["faults"] if text.startswith("spool: OSError")]
    assert process.recorder.guard.retired == set()
    assert store.read([process.spool.folder]).missing == 0


def test_a_folder_that_is_removed_ends_the_recording_and_nothing_else(process: Process) -> None:
    """Who removes the folder gets it back neither now nor at the end, and the engine's calls go on."""
    process.call(1)
    until(lambda: list(process.spool.folder.glob("ledger-*")))
    shutil.rmtree(process.spool.folder)
    until(lambda: process.spool.parts.gone)
    for number in range(50):
        assert process.call(number) == number
    until(lambda: process.ledger.lost >= 50)
    process.spool.close()
    assert not process.spool.folder.exists()


def test_a_folder_that_cannot_be_written_costs_spans_alone(tmp_path: Path) -> None:
    """Where no recording can be made, all calls go on and the loss is counted."""
    (tmp_path / "file").write_text("")
    made = Process(tmp_path / "file" / "run")
    made.spool.start()
    for number in range(20):
        assert made.call(number) == number
    until(lambda: made.ledger.lost == 20)
    made.spool.close()
    with pytest.raises(UnreachableError):
        store.read([tmp_path / "file" / "run"])


def test_a_writer_that_hangs_holds_up_neither_calls_nor_the_end(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that never answers: calls take no longer, what does not fit is counted, and the process can end."""
    hanging, released = threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        hanging.set()
        released.wait()

    monkeypatch.setattr(parts.Parts, "_append", hang)
    monkeypatch.setattr(spool, "PATIENCE", 0.2)
    process.call(0)
    assert hanging.wait(10)
    began = time.monotonic()
    for number in range(5000):
        process.call(number)
    process.spool.say_end(1)
    process.spool.close()
    assert time.monotonic() - began < 5
    assert process.recorder.queue.dropped == 4000
    released.set()


def test_a_writer_that_fails_goes_on(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the writer's own is counted, and the writer lives."""
    flush, failures = Spool._write_some, iter([True] * 3)

    def failing(own: Spool) -> int:
        if next(failures, False):
            raise RuntimeError("ours")
        return flush(own)

    monkeypatch.setattr(Spool, "_write_some", failing)
    for number in range(5):
        process.call(number)
    until(lambda: process.recorder.guard.faults == {"spool": 3})
    process.spool.close()
    assert numbers(process.spool.folder) == [0, 1, 2, 3, 4]
    assert process.recorder.guard.faults == {"spool": 3}


def test_the_writer_says_nothing_more_than_once(process: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A disk that stays full fills no log."""
    monkeypatch.setattr(spool, "PATIENCE", 0.0)
    BadDisk(monkeypatch)
    with caplog.at_level(logging.DEBUG):
        for number in range(20):
            process.call(number)
            time.sleep(0.025)
        until(lambda: process.ledger.lost == 20)
    assert len(caplog.records) == 1


def test_closing_twice_is_closing_once(process: Process) -> None:
    """A second end adds nothing."""
    process.call(1)
    process.spool.close()
    process.spool.close()
    assert numbers(process.spool.folder) == [1]


def during_a_write(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    """Have something happen while the writer writes its first line."""
    append, first = parts.Parts._append, iter([True])

    def appended(own: parts.Parts, line: bytes) -> None:
        if next(first, False):
            happens()
        append(own, line)

    monkeypatch.setattr(parts.Parts, "_append", appended)


def test_who_asks_while_the_writer_answers_another_is_not_told_before_its_own_records_are_written(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads that settle at once: each is told when what it left is in the file."""
    said: list[list[Any]] = []

    def ask() -> None:
        process.call(2)
        said.append(numbers(process.spool.folder) if process.spool.settle() else [])

    other = threading.Thread(target=ask)

    def come() -> None:
        other.start()
        until(lambda: len(process.recorder.queue.records) == 1 and process.spool._asks)
        # The other thread has asked once it waits.
        time.sleep(0.1)

    during_a_write(monkeypatch, come)
    process.call(1)
    assert process.spool.settle()
    other.join()
    assert said == [[1, 2]]


def test_nobody_waits_for_a_writer_that_is_not_there(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the end, and in a forked child before it records, what asks for a write is told at once that there is none."""
    monkeypatch.setattr(spool, "PATIENCE", 20.0)
    process.spool.close()
    began = time.monotonic()
    assert not process.spool.settle()
    assert time.monotonic() - began < 10


def test_an_end_in_the_middle_of_a_long_write_is_an_end_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written in the time that an end may take is counted as dropped, and the ledger says that the process ended in order."""
    made = Process(tmp_path / "run", queue=10_000)
    append = parts.Parts._append
    # A slow disk, which needs 6 s for what waits, of the 4 that an end may take here.
    monkeypatch.setattr(spool, "PATIENCE", 4.0)
    monkeypatch.setattr(spool, "LINE_CHARACTERS", 1)
    monkeypatch.setattr(parts.Parts, "_append", lambda own, line: (time.sleep(0.1), append(own, line)))
    for number in range(2000):
        made.call(number)
    made.spool.start()
    until(lambda: made.ledger.written)
    made.spool.close()
    found = store.read([tmp_path / "run"])
    assert made.document()["closed"]
    assert found.dropped > 0
    assert found.dropped + len([span for span in found.spans if span.name == v.FLUSH]) == 2000


class Engine:
    """An engine in a time of its own, which passes while the writer rests: WORKS is done in each rest."""

    def __init__(self, process: Process, monkeypatch: pytest.MonkeyPatch, works: Callable[[], Any]) -> None:
        self.process = process
        self.now = 0.0
        self.works = works
        monkeypatch.setattr(spool.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(process.recorder.queue, "rest", self._rest)

    def _rest(self, seconds: float) -> None:
        self.now += seconds
        self.works()

    def met_after(self) -> float:
        """Seconds from a first record to the writer's work."""
        self.process.call(0)
        self.process.spool._linger()
        return self.now


def test_the_writer_waits_for_an_engine_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, or decode steps that leave none, put the writer off, though never so long that a sudden death would cost a second."""
    process = Process(tmp_path)
    assert spool.LINGER <= Engine(process, monkeypatch, lambda: process.call(1)).met_after() < 0.5
    assert spool.LINGER <= Engine(process, monkeypatch, lambda: before_forward((None, object()), {})).met_after() < 0.5


def test_the_writer_comes_when_the_engine_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing happens for a moment the first records are written, so that a short run is soon in its file."""
    assert Engine(Process(tmp_path), monkeypatch, lambda: None).met_after() == spool.PAUSE


def test_the_writer_comes_when_it_is_asked_or_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who needs the file now does not wait, and a queue that fills up is emptied."""
    process = Process(tmp_path, queue=10_000)
    assert Engine(process, monkeypatch, lambda: [process.call(0) for _ in range(spool.PLENTY // 2)]).met_after() == pytest.approx(2 * spool.PAUSE)
    asked = Process(tmp_path)
    engine = Engine(asked, monkeypatch, lambda: asked.spool._asks.append(threading.Event()) or asked.call(1))
    assert engine.met_after() == spool.PAUSE
    engine.works = asked.spool._stop.set
    asked.spool._asks.clear()
    assert engine.met_after() == pytest.approx(2 * spool.PAUSE)


def test_the_writer_comes_before_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small queue, or much detail of few records, is not waited for until spans or their detail have to be left out."""
    small = Process(tmp_path, queue=20)
    assert Engine(small, monkeypatch, lambda: [small.call(0) for _ in range(6)]).met_after() == pytest.approx(2 * spool.PAUSE)
    detailed = Process(tmp_path)
    admit = detailed.recorder.queue.admit
    assert Engine(detailed, monkeypatch, lambda: (detailed.call(0), admit(Late(100)))).met_after() == pytest.approx(3 * spool.PAUSE)


def test_records_come_in_without_a_look_at_the_queue_while_the_writer_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine at work takes the short way for each record that is sure to fit."""
    process = Process(tmp_path)
    process.recorder.queue.sleep(0)
    slow: list[Any] = []
    put = process.recorder.queue.put
    monkeypatch.setattr(process.recorder.queue, "put", lambda record: (slow.append(record), put(record)))
    Engine(process, monkeypatch, lambda: process.call(1)).met_after()
    assert len(slow) == 1
