"""Follows a recording that grows: new spans since the last look, from every file of the folder."""

import os
from operator import attrgetter
from pathlib import Path

from hicachectl.exits import UnreachableError
from hicachectl.store import files
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.span import Span, Value

_LOOK_BYTES = 16 << 20
"""Read from one file in one look at most, so that a look stays short."""


class Tail:
    """Reads what was added to the recording in a folder; files are told apart by inode, so that a rotation loses nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broken_lines = 0
        self._decoder = Decoder()
        self._places: dict[tuple[int, int], int] = {}

    @property
    def resources(self) -> dict[str, dict[str, Value]]:
        """Engine id -> what its resource says, as far as spans were read."""
        return self._decoder.resources

    def look(self) -> list[Span]:
        """Spans of whole lines that were added since the last look, in time order."""
        found: list[Span] = []
        for path in self._paths():
            found += self._added(path)
        found.sort(key=attrgetter("start_ns"))
        return found

    def behind(self) -> bool:
        """Whether there is more to read than the last looks took."""
        return any(_size(path) - self._places.get(_identity(path), 0) > _LOOK_BYTES for path in self._paths())

    def _paths(self) -> list[Path]:
        try:
            return files.span_files(self.folder)
        except UnreachableError:  # absent yet, or removed while it is looked at: there is nothing new
            return []

    def _added(self, path: Path) -> list[Span]:
        try:
            with path.open("rb") as stream:
                told = os.fstat(stream.fileno())
                identity = (told.st_dev, told.st_ino)
                start = self._places.get(identity, 0)
                if told.st_size <= start:
                    return []
                stream.seek(start)
                text = stream.read(_LOOK_BYTES)
                end = text.rfind(b"\n") + 1
                if not end:
                    text += stream.readline()
                    end = len(text) if text.endswith(b"\n") else 0
        except OSError:
            return []
        self._places[identity] = start + end
        return self._decoded(text[:end])

    def _decoded(self, text: bytes) -> list[Span]:
        found: list[Span] = []
        for line in text.split(b"\n"):
            if line and not line.isspace():
                try:
                    found += self._decoder.spans(line)
                except BrokenLineError:
                    self.broken_lines += 1
        return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _identity(path: Path) -> tuple[int, int]:
    try:
        told = path.stat()
    except OSError:
        return (0, 0)
    return told.st_dev, told.st_ino
