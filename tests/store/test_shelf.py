"""Where recordings lie."""

import os
import time
from pathlib import Path

import pytest
from recordings import EPOCH_MS, Recording

from hicachectl import store
from hicachectl.exits import UnreachableError, UsageError
from hicachectl.store import shelf
from tracers import vocabulary as v


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder for recordings."""
    monkeypatch.setenv("HICACHECTL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make(folder: Path, *, closed: bool = True, host: str = "host-a", pid: int = 1, age_s: float = 0) -> Path:
    """A recording of about a kilobyte, written AGE_S seconds ago."""
    made = Recording()
    made.engine(pid=pid, host=host).ledger(closed=closed).span(v.FLUSH, 1)
    made.write(folder)
    for file in folder.iterdir():
        os.utime(file, (time.time() - age_s,) * 2)
    return folder


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """$HICACHECTL_HOME wins over $XDG_STATE_HOME, which wins over ~/.local/state."""
    monkeypatch.setenv("HICACHECTL_HOME", "/a/home")
    monkeypatch.setenv("XDG_STATE_HOME", "/b/state")
    assert store.home() == Path("/a/home")
    monkeypatch.delenv("HICACHECTL_HOME")
    assert store.home() == Path("/b/state/hicachectl")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert store.home() == Path.home() / ".local/state/hicachectl"


def test_names_sort_by_time() -> None:
    """A later recording has a later name, within a second as well as over years."""
    times = [EPOCH_MS, EPOCH_MS + 1, EPOCH_MS + 999, EPOCH_MS + 60_000, EPOCH_MS + 10**11]
    names = [shelf.new_name(moment) for moment in times]
    assert names == sorted(names)
    assert names[0] == "20251124T160000.000Z"


def test_only_recordings_are_listed_and_the_newest_is_last(home: Path) -> None:
    """Other folders, files and links under the home folder are none of our business."""
    for name in ("2", "1"):
        make(home / name)
    (home / "notes").mkdir()
    (home / "file").touch()
    (home / "0").symlink_to(home / "1")
    assert [run.name for run in store.list_runs()] == ["1", "2"]
    assert store.newest().name == "2"
    assert store.newest().created_ms == EPOCH_MS
    assert store.named("1") == home / "1"


def test_the_oldest_go_first_until_the_home_folder_is_below_its_bound(home: Path) -> None:
    """Recordings are removed by age; what is not a recording stays, whatever its size."""
    for name in "1234":
        make(home / name)
    (home / "notes").mkdir()
    (home / "notes" / "big").write_bytes(b"0" * 100_000)
    size = store.newest().bytes
    assert [path.name for path in shelf.keep_below(2 * size)] == ["1", "2"]
    assert [run.name for run in store.list_runs()] == ["3", "4"]
    assert (home / "notes" / "big").exists()


def test_a_recording_that_is_being_written_is_never_removed_for_space(home: Path) -> None:
    """An open ledger whose process lives, or that was written just now from elsewhere, protects its recording; so does being the newest."""
    make(home / "1", closed=False, host=os.uname().nodename, pid=os.getpid(), age_s=9999)
    make(home / "2", closed=False, host="elsewhere")
    make(home / "3", closed=False, host="elsewhere", age_s=9999)
    make(home / "4", closed=False, host=os.uname().nodename, pid=2**22 + 1, age_s=9999)
    mine = next((home / "1").glob("ledger-*"))
    mine.write_text(
        mine.read_text().replace(f'"start_ms": {EPOCH_MS - 1000}', f'"start_ms": {int(time.time() * 1000)}')
    )
    os.utime(mine, (1, 1))
    make(home / "5")
    assert [path.name for path in shelf.keep_below(0)] == ["3", "4"]
    with pytest.raises(UsageError, match="being written"):
        store.delete("1")
    assert store.delete("2") == home / "2"


def test_a_reused_process_number_protects_nothing(home: Path) -> None:
    """A process that began after the ledger is another one."""
    make(home / "1", closed=False, host=os.uname().nodename, pid=os.getpid(), age_s=9999)
    assert store.delete("1") == home / "1"


def test_keep_leaves_the_newest(home: Path) -> None:
    """`keep(2)` removes all but two."""
    for name in "1234":
        make(home / name)
    assert [path.name for path in store.keep(2)] == ["1", "2"]
    assert store.keep(5) == []


def test_only_a_recording_can_be_deleted(home: Path, tmp_path: Path) -> None:
    """A folder without a recording is refused and left alone."""
    (tmp_path / "precious").mkdir()
    for run in (tmp_path / "precious", home / "absent"):
        with pytest.raises(UnreachableError):
            store.delete(run)
    assert (tmp_path / "precious").is_dir()


def test_a_bound_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error in the bound must not remove recordings."""
    monkeypatch.setenv("HICACHECTL_HOME_BYTES", "10G")
    with pytest.raises(UsageError, match="HICACHECTL_HOME_BYTES"):
        shelf.bound()
