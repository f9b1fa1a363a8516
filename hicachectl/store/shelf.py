"""Where recordings lie: the home folder, the newest, the list, and the bound on their size."""

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.store import files
from hicachectl.whole import whole

if TYPE_CHECKING:
    from hicachectl.store.ledger import Ledger

LARGEST_HOME = 10 << 30
"""Bytes that the recordings under the home folder may take, unless $HICACHECTL_HOME_BYTES says otherwise."""
_STILL_WARM_S = 600.0
"""A recording with an open ledger that was written to this recently counts as being written, whatever host it is from."""
_LATEST_MS = 253_402_300_800_000
"""The year 10,000, which no date can tell."""
_CLOCK_SLACK_MS = 2000
"""The kernel tells when it booted in whole seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recording on disk."""

    path: Path
    bytes: int
    created_ms: int
    changed_s: float
    """When a file of it was last written to, seconds since the epoch."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name


def home() -> Path:
    """$HICACHECTL_HOME, else $XDG_STATE_HOME/hicachectl, else ~/.local/state/hicachectl; it need not exist."""
    own = os.environ.get("HICACHECTL_HOME")
    if own:
        return Path(own).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state).absolute() if state else Path.home() / ".local" / "state") / "hicachectl"


def new_name(now_ms: int) -> str:
    """A name for a recording made now (UTC): names sort by time."""
    moment = datetime.fromtimestamp(now_ms / 1000, timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{now_ms % 1000:03d}Z"


def named(run: str | Path) -> Path:
    """RUN as an absolute path; a bare name that is no path here may be that of a recording under the home folder."""
    path = Path(run)
    if not path.exists() and path.name == str(run) and (home() / path).exists():
        path = home() / path
    return path.absolute()


def list_runs() -> list[Run]:
    """Recordings under the home folder, the newest last."""
    folder = home()
    try:
        found = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise UnreachableError(f"cannot look into {folder}: {error.strerror}") from error
    return [of(path) for path in found if _is_ours(path)]


def of(path: Path) -> Run:
    """What the disk says about the recording in PATH."""
    size, changed = 0, 0.0
    with suppress(OSError):  # it may be taken away while it is looked at
        for file in path.iterdir():
            told = file.lstat()
            size, changed = size + told.st_size, max(changed, told.st_mtime)
    return Run(path, size, _created_ms(path, changed), changed)


def newest() -> Run:
    """The newest recording under the home folder; UnreachableError naming the folder where there is none."""
    runs = list_runs()
    if not runs:
        raise UnreachableError(f"no recording under {home()}: make one with `hicachectl trace -- COMMAND`")
    return runs[-1]


def is_being_written(run: Run) -> bool:
    """Whether a living process has an open ledger in it, as far as can be told: one of another host counts while it writes."""
    warm = time.time() - run.changed_s < _STILL_WARM_S
    found = _ledgers(run.path)
    return warm if not found else any(one is None or (not one.closed and (warm or _lives(one))) for one in found)


def is_in_use(path: Path) -> bool:
    """Whether a process of this host that lives has an open ledger in the recording."""
    return any(one is not None and not one.closed and _lives(one) for one in _ledgers(path))


def _ledgers(path: Path) -> "list[Ledger | None]":
    from hicachectl.store import ledger  # noqa: PLC0415 - with no recording there is nothing to decode

    return [ledger.from_file(file) for file in files.ledger_files(path)]


def delete(run: str | Path) -> Path:
    """Remove the recording RUN; UnreachableError where there is none, UsageError where it is being written."""
    path = named(run)
    if not path.is_dir() or not files.is_recording(path):
        raise UnreachableError(f"no recording at {path}; `hicachectl runs` lists what there is")
    if is_in_use(path):
        raise UsageError(f"{path} is being written: stop the engine first")
    _remove(path)
    return path


def keep(count: int) -> list[Path]:
    """Remove all but the newest COUNT recordings under the home folder; what is being written stays. Returns what went."""
    runs = list_runs()
    gone = [run for run in runs[: max(0, len(runs) - count)] if not is_in_use(run.path)]
    for run in gone:
        _remove(run.path)
    return [run.path for run in gone]


def keep_below(limit: int | None = None) -> list[Path]:
    """Remove the oldest recordings until the home folder is below LIMIT bytes. Returns what went.

    The newest stays, whatever its size, and so does what is being written.
    """
    limit = bound() if limit is None else limit
    runs = list_runs()
    size = sum(run.bytes for run in runs)
    gone = []
    for run in runs[:-1]:
        if size <= limit:
            break
        if is_being_written(run):
            continue
        with suppress(UnreachableError):  # somebody else's: what can be removed has to do
            _remove(run.path)
            gone.append(run.path)
            size -= run.bytes
    return gone


def bound() -> int:
    """Bytes that the home folder may take; UsageError where $HICACHECTL_HOME_BYTES is no number."""
    text = os.environ.get("HICACHECTL_HOME_BYTES")
    if not text:
        return LARGEST_HOME
    size = whole(text)
    if size is None:
        raise UsageError(f"HICACHECTL_HOME_BYTES={text} is no number of bytes")
    return size


def _is_ours(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and files.is_recording(path)
    except OSError:
        return False


def _created_ms(path: Path, changed: float) -> int:
    import msgspec  # noqa: PLC0415

    try:
        told = msgspec.json.decode((path / files.RUN_FILE).read_bytes())
        created = int(told["created_ms"])
        return created if 0 <= created < _LATEST_MS else int(changed * 1000)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return int(changed * 1000)


def _lives(one: "Ledger") -> bool:
    """Whether the ledger's process is still there; one that began after the ledger only has the same number."""
    if one.host != os.uname().nodename or one.pid <= 0:
        return False
    try:
        state, *rest = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration, ValueError):
        return False
    began_ms = (int(booted.split()[1]) + int(rest[18]) / os.sysconf("SC_CLK_TCK")) * 1000
    return state != "Z" and began_ms <= one.start_ms + _CLOCK_SLACK_MS


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise UnreachableError(f"cannot remove {path}: {error.strerror}") from error
