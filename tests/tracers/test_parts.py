"""The files of one process: whole lines, a bound that holds, and what happens when the disk does not play along."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tracers import vocabulary as v
from tracers.parts import Parts, claim

STEM = "host-1-1700000000000"


def parts(folder: Path, part_bytes: int = 100, keep: int = 2) -> Parts:
    """The files of a process in FOLDER."""
    return Parts(folder, STEM, part_bytes, keep)


def numbered(number: int) -> bytes:
    """A line of 20 bytes."""
    return f"{number:019d}\n".encode()


def lines(folder: Path) -> list[int]:
    """The numbers of all lines that are there, oldest first; fails for a line that is not whole."""
    files = sorted(folder.glob("spans-*"), key=lambda path: -int(path.suffix[1:]) if path.suffix[1:].isdigit() else 0)
    found = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    assert all(len(line) == 20 for line in found)
    return [int(line) for line in found]


def test_nothing_is_made_before_there_is_something_to_write(tmp_path: Path) -> None:
    """A process that records nothing leaves no file and no folder."""
    made = parts(tmp_path / "run")
    assert not made.opened
    assert made.look()
    assert not (tmp_path / "run").exists()


def test_the_recording_never_grows_beyond_its_bound_and_drops_are_counted(tmp_path: Path) -> None:
    """At every moment the files are below (parts + 1) x size; the oldest go first, and what is there and what went is all there was."""
    made, dropped = parts(tmp_path), 0
    for number in range(200):
        dropped += made.write(numbered(number), 3)
        assert sum(file.stat().st_size for file in tmp_path.glob("spans-*")) <= 300
        have = lines(tmp_path)
        assert have == list(range(number + 1 - len(have), number + 1))
        assert made.spans == 3 * len(have)
        assert made.spans + dropped == 3 * (number + 1)
    assert sorted(path.name for path in tmp_path.glob("spans-*")) == [f"spans-{STEM}.jsonl", f"spans-{STEM}.jsonl.1", f"spans-{STEM}.jsonl.2"]


def test_a_bound_of_one_part_keeps_the_last_lines(tmp_path: Path) -> None:
    """The smallest bound is one file and one older one."""
    made = parts(tmp_path, part_bytes=20, keep=1)
    dropped = sum(made.write(numbered(number), 1) for number in range(10))
    assert (lines(tmp_path), dropped, made.spans) == ([8, 9], 8, 2)


def test_run_json_is_made_once_and_is_whole(tmp_path: Path) -> None:
    """Of many processes that begin at once one makes run.json; nobody sees half of it, and nothing else is left."""
    seen: list[bytes] = []
    stop = threading.Event()

    def watch() -> None:
        last = False
        while not last:
            last = stop.is_set()
            if (tmp_path / "run.json").exists():
                seen.append((tmp_path / "run.json").read_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    threads = [threading.Thread(target=claim, args=(tmp_path, f"host-{number}-17000000000{number:02d}")) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watching.join()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    document = json.loads((tmp_path / "run.json").read_bytes())
    assert document["recording_version"] == v.RECORDING_VERSION
    assert set(seen) == {(tmp_path / "run.json").read_bytes()}


def test_processes_that_begin_at_once_agree_on_run_json(tmp_path: Path) -> None:
    """The same between processes: one file, whole, and no other."""
    script = "import sys; from pathlib import Path; from tracers.parts import claim; sys.stdin.read(); claim(Path(sys.argv[1]), f'h-{sys.argv[2]}-{sys.argv[2]}')"
    started = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)], stdin=subprocess.PIPE) for number in range(6)]
    for each in started:
        assert each.stdin is not None
        each.stdin.close()
    assert [each.wait() for each in started] == [0] * 6
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert json.loads((tmp_path / "run.json").read_text())["created_ms"] in range(6)


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where links are refused run.json is made all the same."""

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    claim(tmp_path, STEM)
    assert json.loads((tmp_path / "run.json").read_text())["created_ms"] == 1_700_000_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_full_disk_leaves_whole_lines_and_writing_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """A line of which a part was taken is taken back; later ones are written once they fit."""
    made = parts(tmp_path, part_bytes=1 << 20)
    made.write(numbered(1), 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, hard))
    try:
        for number in (2, 3):
            with pytest.raises(OSError, match="File too large"):
                made.write(numbered(number), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (lines(tmp_path), made.spans) == ([1], 1)
    made.write(numbered(4), 1)
    assert (lines(tmp_path), made.spans) == ([1, 4], 2)


def test_a_part_of_a_line_that_cannot_be_taken_back_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file cannot be cut either, the next line begins on a line of its own."""

    def refused(*_: object) -> None:
        raise OSError

    made = parts(tmp_path, part_bytes=1 << 20)
    made.write(numbered(1), 1)
    monkeypatch.setattr(os, "ftruncate", refused)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            made.write(numbered(2), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    made.write(numbered(3), 1)
    assert (tmp_path / f"spans-{STEM}.jsonl").read_bytes() == numbered(1) + numbered(2)[:10] + b"\n" + numbered(3)


def test_a_folder_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    """Who removes the folder of a running engine wants no recording: the file is let go, so that it takes no room."""
    made = parts(tmp_path / "run")
    made.write(numbered(1), 1)
    shutil.rmtree(tmp_path / "run")
    assert not made.look()
    assert not made.opened
    assert made.gone
    assert not (tmp_path / "run").exists()


def test_a_folder_in_which_nothing_can_be_made_is_an_error(tmp_path: Path) -> None:
    """A path that cannot be a folder is told as the operating system tells it, and the next line tries again."""
    (tmp_path / "file").write_text("")
    made = parts(tmp_path / "file" / "run")
    for _ in range(2):
        with pytest.raises(OSError, match="Not a directory"):
            made.write(numbered(1), 1)
    assert made.spans == 0
