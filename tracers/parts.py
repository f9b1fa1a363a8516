"""The span files of one process: whole lines only, rotated, and never beyond their bound."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from tracers import vocabulary as v


class Parts:
    """`spans-STEM.jsonl` and what was rotated out of it, `.1` the youngest; made when there is something to write."""

    def __init__(self, folder: Path, stem: str, part_bytes: int, keep: int) -> None:
        self.folder = folder
        self.stem = stem
        self.part_bytes = part_bytes
        self.keep = keep
        self.gone = False
        """The folder was removed while we wrote: somebody wants no recording, so none is made again."""
        self._file: Any = None
        self._size = 0
        self._broken = False
        self._spans: list[int] = [0]
        """Spans in the file, then in each rotated one."""

    @property
    def path(self) -> Path:
        """The file that is written now."""
        return self.folder / f"spans-{self.stem}.jsonl"

    @property
    def opened(self) -> bool:
        """Whether there is a file."""
        return self._file is not None

    @property
    def spans(self) -> int:
        """Spans that the files hold."""
        return sum(self._spans)

    def write(self, line: bytes, spans: int) -> int:
        """Append a LINE of so many SPANS; how many older spans went with the oldest part. OSError: nothing of the line is there."""
        if self._file is None:
            self._open()
        out = 0
        if self._size and self._size + len(line) > self.part_bytes:
            out = self._rotate()
        try:
            self._append(line)
        except OSError:
            self._undo()
            raise
        self._size += len(line)
        self._spans[0] += spans
        return out

    def look(self) -> bool:
        """Whether the folder is still there; if not, the file in it is let go."""
        if self._file is not None and not self.folder.exists():
            self.gone = True
            self.close()
        return not self.gone

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    # -- one file --------------------------------------------------------------------------------------------------
    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        claim(self.folder, self.stem)
        self._file = self.path.open("ab", buffering=0)
        self._size = self._file.tell()

    def _append(self, line: bytes) -> None:
        if self._broken:
            line = b"\n" + line
        rest = memoryview(line)
        while rest:
            # A full disk may take a part of a line, and refuse the rest.
            rest = rest[self._file.write(rest) :]
        self._broken = False

    def _undo(self) -> None:
        """Take back the part of a line that a full disk took, so that the file holds whole lines only."""
        try:
            os.ftruncate(self._file.fileno(), self._size)
        except OSError:
            self._broken = True

    # -- rotation --------------------------------------------------------------------------------------------------
    def _rotate(self) -> int:
        """Move the file aside as `.1`, older ones up; the oldest beyond the bound is deleted: how many spans it held."""
        self._file.close()
        self._file = None
        out = 0
        for number in range(self.keep, -1, -1):
            part = self._part(number)
            if not part.exists():
                continue
            if number == self.keep:
                part.unlink()
                out = self._spans.pop() if len(self._spans) > self.keep else 0
            else:
                part.rename(self._part(number + 1))
        self._spans.insert(0, 0)
        self._file = self.path.open("ab", buffering=0)
        self._size = 0
        return out

    def _part(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")


def claim(folder: Path, stem: str) -> None:
    """Create run.json unless another process has: it appears whole or not at all."""
    run = folder / "run.json"
    if run.exists():
        return
    temporary = folder / f".run-{stem}.tmp"
    document = {"recording_version": v.RECORDING_VERSION, "created_ms": int(stem.rpartition("-")[2])}
    temporary.write_text(json.dumps(document) + "\n", encoding="utf-8")
    try:
        os.link(temporary, run)
    except FileExistsError:
        pass
    except OSError:
        # A file system without hard links: whole as well, but of two that come at once the second one stays.
        temporary.replace(run)
    finally:
        temporary.unlink(missing_ok=True)
