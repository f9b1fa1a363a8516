"""What a recording is made of on disk: names, and which files a RUN stands for."""

import re
from collections.abc import Iterator
from pathlib import Path

from hicachectl.exits import BadInputError, UnreachableError

STDIN = "-"
RUN_FILE = "run.json"
SPANS_FILE = re.compile(r"spans-(?P<stem>.+)\.jsonl(?:\.(?P<part>\d+))?")
LEDGER_FILE = re.compile(r"ledger-(?P<stem>.+)\.json")
_FOREIGN = re.compile(r".+\.jsonl(?:\.\d+)?")


def is_recording(folder: Path) -> bool:
    """Whether FOLDER holds a recording, be it one without spans."""
    return any(True for _ in _own(folder))


def span_files(run: Path) -> list[Path]:
    """Files that hold the spans of RUN, in the order of their names; a folder of a collector's files will do.

    UnreachableError where RUN is absent or holds no recording; BadInputError for a device, which may never end.
    """
    try:
        return _span_files(run)
    except OSError as error:
        raise UnreachableError(f"cannot look at {run}: {error.strerror}") from error


def _span_files(run: Path) -> list[Path]:
    if not run.exists():
        raise UnreachableError(f"no recording at {run}: no such file or folder; `hicachectl runs` lists what there is")
    if run.is_char_device() or run.is_block_device():
        raise BadInputError(f"{run} is a device, no recording")
    if not run.is_dir():
        return [run]
    own = [path for path in _own(run) if SPANS_FILE.fullmatch(path.name)]
    if own or is_recording(run):
        return own
    foreign = sorted(path for path in run.iterdir() if _FOREIGN.fullmatch(path.name))
    if not foreign:
        raise UnreachableError(
            f"no recording in {run}: it holds no spans-*.jsonl; `hicachectl runs` lists what there is"
        )
    return foreign


def ledger_files(run: Path) -> list[Path]:
    """Ledgers of RUN: those of the folder, or the one beside a file of spans."""
    if run.is_dir():
        return [path for path in _own(run) if LEDGER_FILE.fullmatch(path.name)]
    match = SPANS_FILE.fullmatch(run.name)
    beside = run.with_name(f"ledger-{match['stem']}.json") if match else None
    return [beside] if beside is not None and beside.is_file() else []


def _own(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        name = path.name
        if (name == RUN_FILE or SPANS_FILE.fullmatch(name) or LEDGER_FILE.fullmatch(name)) and path.is_file():
            yield path
