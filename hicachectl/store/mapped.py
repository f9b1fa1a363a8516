"""Large files of spans, mapped rather than read: what a span says stays on disk until it is asked for, and costs no memory."""

import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

LEAST_BYTES = 4 << 20
"""Smaller files are read: they cost little."""
_AT_REST_S = 2.0
"""A file that was written to this lately may be written to still; it is read, since a mapped file must not shrink."""
_STEP = 1 << 20
"""So much is looked at before the memory that it took is given back."""


class Mapped:
    """One file, mapped; it stays so for as long as a span of it lives."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.places: list[tuple[int, int]] = []
        """Where each line begins and ends, as far as they were looked at."""
        self._data = data

    def lines(self) -> Iterator[tuple[memoryview, bool]]:
        """Lines that are not blank, each with whether it ends in a newline; its end is not in it."""
        data, view, size = self._data, memoryview(self._data), len(self._data)
        start = given = 0
        while start < size:
            end = data.find(b"\n", start)
            whole = end >= 0
            end = end if whole else size
            line = view[start:end]
            # A line of spans begins with a brace: only what does not is worth a closer look.
            if len(line) and (line[0] == ord("{") or not bytes(line).isspace()):
                self.places.append((start, end))
                yield line, whole
            start = end + 1
            if start - given > _STEP:
                self.release()
                given = start

    def release(self) -> None:
        """Give back the memory that holds parts of the file; they come back from disk, or from the system's cache, when they are looked at."""
        self._data.madvise(mmap.MADV_DONTNEED)


def is_at_rest(changed_s: float) -> bool:
    """Whether a file that was last written to at this time is likely to stay as it is."""
    return not 0 <= time.time() - changed_s < _AT_REST_S


def mapped_file(path: Path, least_bytes: int) -> Mapped | None:
    """PATH mapped, or None where it has less than LEAST_BYTES, still grows, or is nothing that can be mapped."""
    try:
        with path.open("rb") as stream:
            told = os.fstat(stream.fileno())
            if (
                told.st_size < least_bytes
                or not is_at_rest(told.st_mtime)
                or not hasattr(mmap, "MADV_DONTNEED")
            ):
                return None
            return Mapped(path, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return None
