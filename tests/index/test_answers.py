"""The index beside a recording gives what reading the whole recording gives, or is not used."""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import invoke
import pytest
from recordings import Recording

from hicachectl import store
from hicachectl.index import ask
from hicachectl.store.around import all_around, around, rid_of
from tracers import vocabulary as v

SAMPLES = sorted(path.parent for path in (Path(__file__).parents[1] / "samples").rglob("run.json"))
SAMPLE = next(path for path in SAMPLES if path.name == "0.5.14")
ASKED = (("explain", "-o", "json"), ("explain",), ("show", "-o", "json"), ("show",), ("show", "--since", "2020-01-01"))

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)


@pytest.fixture(autouse=True)
def _every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small recordings are indexed as well, and their tables have several leaves."""
    monkeypatch.setattr(ask, "LEAST_BYTES", 1)
    monkeypatch.setattr("hicachectl.index.file.LEAF", 2)
    monkeypatch.setattr("hicachectl.index.build.LEAF", 2)


def copied(sample: Path, folder: Path) -> Path:
    """SAMPLE in a folder of its own, as if nobody had written to it for a while."""
    run = folder / "run"
    shutil.copytree(sample, run)
    rested(run)
    return run


def rested(run: Path) -> None:
    """Let the files of RUN be a minute old."""
    for path in run.iterdir():
        if path.name != ask.NAME:
            os.utime(path, (time.time() - 60, time.time() - 60))


def rids(run: Path) -> list[str]:
    """Every request id of RUN, and how some begin."""
    found = sorted({rid_of(span) for span in store.read([run]).spans} - {""})
    return [*found, *{rid[:4] for rid in found}, "no such request"]


def answers(run: Path, *, indexed: bool) -> dict[tuple[str, ...], invoke.Ended]:
    """What every command says of every request, with the index or without."""
    with pytest.MonkeyPatch.context() as patch:
        if not indexed:
            patch.setattr(ask, "_indexable", lambda _runs: None)
        return {(*words, rid): invoke.inside(words[0], str(run), *words[1:], "--request", rid) for words in ASKED for rid in rids(run)}


@each_sample
def test_the_index_says_what_the_recording_says(sample: Path, tmp_path: Path) -> None:
    """Every command of every request gives the same bytes and the same exit code, when the index is made and when it is there."""
    run = copied(sample, tmp_path)
    whole = answers(run, indexed=False)
    assert not (run / ask.NAME).exists()
    assert answers(run, indexed=True) == whole
    made = (run / ask.NAME).stat()
    assert answers(run, indexed=True) == whole
    assert (run / ask.NAME).stat().st_mtime_ns == made.st_mtime_ns


@pytest.mark.parametrize("rid", ["", "a"])
def test_ids_that_are_odd_are_answered_as_without_the_index(rid: str, tmp_path: Path) -> None:
    """An empty id is also what spans have that serve no request; an id may begin with another one, or hold any character."""
    made = Recording()
    engine = made.engine()
    for place, each in enumerate(("", "a", "aa", "a b", "a\n", "\uffff", "\U0001f600", "A", "a")):
        engine.span(v.REQUEST_QUEUED, 10 * place, 10 * place + 1, rid=each)
        engine.span(v.PREFILL, 10 * place + 2, 10 * place + 3, rid=each)
        engine.span(v.FLUSH, 10 * place + 4, 10 * place + 5)
    run = made.write(tmp_path / "run")
    rested(run)
    asked = [(*words, each) for words in ASKED for each in (rid, rid + "a", rid + "\n", rid + "\uffff", rid + "\U0001f600", rid + "zz")]

    def said() -> list[invoke.Ended]:
        return [invoke.inside(words[0], str(run), *words[1:-1], f"--request={words[-1]}") for words in asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ask, "_indexable", lambda _runs: None)
        whole = said()
    assert said() == whole
    assert (run / ask.NAME).exists()


def test_a_recording_that_has_changed_is_read_again(tmp_path: Path) -> None:
    """An index of what the files were is stale, even where no file has another size."""
    run = copied(SAMPLE, tmp_path)
    answers(run, indexed=True)
    path = next(run.glob("spans-*"))
    path.write_text(path.read_text().replace('"hicache.match.host","value":{"intValue":"592"}', '"hicache.match.host","value":{"intValue":"480"}'))
    rested(run)
    changed = answers(run, indexed=False)
    assert answers(run, indexed=True) == changed
    path.write_text(path.read_text().rsplit("\n", 2)[0] + "\n")
    rested(run)
    assert answers(run, indexed=True) == answers(run, indexed=False)


@pytest.mark.parametrize("seed", range(40))
def test_a_broken_index_is_made_anew(seed: int, tmp_path: Path) -> None:
    """Whatever bytes of it are changed, cut off or lost, the answer is that of the recording."""
    run = copied(SAMPLE, tmp_path)
    words = ("explain", str(run), "-o", "json", "--request", "storage")
    right = invoke.inside(*words)
    path, chance = run / ask.NAME, random.Random(seed)
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data))
    if seed % 3 == 0:
        data = data[:place]
    elif seed % 3 == 1:
        data[place] ^= 1 << chance.randrange(8)
    else:
        data[place : place + 64] = chance.randbytes(64)
    path.write_bytes(data)
    assert invoke.inside(*words) == right
    assert invoke.inside("show", *words[1:]).returncode == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_under_the_name_of_the_index_is_not_waited_for(make: Callable[[Path], None], tmp_path: Path) -> None:
    """A pipe or a folder of that name is no index: the answer is that of the recording."""
    run = copied(SAMPLE, tmp_path)
    words = ("explain", str(run), "-o", "json", "--request", "storage")
    right = invoke.inside(*words)
    (run / ask.NAME).unlink()
    make(run / ask.NAME)
    assert invoke.inside(*words) == right


def test_a_folder_that_cannot_be_written_to_is_read_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is the same, and nothing is left in the folder."""
    run = copied(SAMPLE, tmp_path)
    before = answers(run, indexed=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert answers(run, indexed=True) == before
    assert not (run / ask.NAME).exists()


def test_a_recording_that_is_written_to_has_no_index(tmp_path: Path) -> None:
    """What may still grow is read as it is."""
    run = copied(SAMPLE, tmp_path)
    next(run.glob("spans-*")).touch()
    assert invoke.inside("explain", str(run), "--request", "storage").returncode == 0
    assert not (run / ask.NAME).exists()


@each_sample
def test_the_spans_around_all_requests_are_those_around_each(sample: Path) -> None:
    """One pass for all gives every request what a pass of its own gives."""
    recording = store.read([sample])
    found = all_around(recording)
    for rid in {rid_of(span) for span in recording.spans} - {""}:
        assert [span.span_id for span in found[rid]] == [span.span_id for span in around(recording, rid)]
