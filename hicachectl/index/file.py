"""The file of an index: values, each with a checksum, and a directory that says where they are. What is not as it was written is not used."""

import os
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

MAGIC = b"hicachectl index 2\n"
_END = 16
"""Bytes at the end: where the directory begins, its length, its checksum."""
LEAF = 512
"""Rows of a long table that are read together: of a million requests one answer needs a few rows."""
Kind = TypeVar("Kind")


class Place(NamedTuple):
    """Where a value lies."""

    start: int
    length: int
    check: int


class Directory(Struct):
    """What the file holds; long tables are in leaves of LEAF rows each."""

    key: list[Any]
    """What it was made from: an index of anything else is stale."""
    lines: list[Place]
    """Leaves of lines."""
    head: Place
    whole: list[int]
    """Numbers of the findings that concern no single request."""
    findings: list[Place]
    """Leaves of places of findings."""
    firsts: list[str]
    """The first request id of each leaf of requests."""
    requests: list[Place]
    """Leaves of requests, sorted by id."""


class Line(NamedTuple):
    """A line of the recording that spans stand in."""

    file: str
    start: int
    end: int


class Named(NamedTuple):
    """A request id, and where what is known of it lies."""

    rid: str
    place: Place


class Request(Struct):
    """What is known of one request id."""

    attempts: list[Place]
    """Where what was found of each attempt lies."""
    spans: list[tuple[int, str]]
    """Its spans and what was done for it under no name: line and span id."""
    findings: list[int]


class Judged(Struct):
    """One attempt of a request: its place among all, and its row of `explain` and of `show`."""

    number: int
    explained: dict[str, Any]
    shown: dict[str, Any]


class BrokenIndexError(Exception):
    """The file is not as it was written."""


class Writer:
    """Writes an index beside its name, and gives it the name when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        number, self._name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        self._stream = os.fdopen(number, "wb")
        self._at = self._stream.write(MAGIC)

    def add(self, value: object) -> Place:
        """Write a value; OverflowError or TypeError for what the file cannot hold."""
        data = msgspec.msgpack.encode(value)
        place = Place(self._at, len(data), zlib.crc32(data))
        self._at += self._stream.write(data)
        return place

    def leaves(self, rows: Sequence[object]) -> list[Place]:
        """Write a long table."""
        return [self.add(rows[start : start + LEAF]) for start in range(0, len(rows), LEAF)]

    def finish(self, directory: Directory) -> None:
        """Write the directory; from now on the index is there."""
        place = self.add(directory)
        self._stream.write(place.start.to_bytes(8, "big") + place.length.to_bytes(4, "big") + place.check.to_bytes(4, "big"))
        self._stream.close()
        Path(self._name).replace(self._path)

    def drop(self) -> None:
        """Leave nothing behind; nothing is done where it was finished."""
        with suppress(OSError):
            self._stream.close()
            Path(self._name).unlink(missing_ok=True)


class Reader:
    """An index that is there; BrokenIndexError or OSError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("rb")
        size = self._stream.seek(0, os.SEEK_END)
        if size < len(MAGIC) + _END or self._bytes(0, len(MAGIC)) != MAGIC:
            raise BrokenIndexError
        end = self._bytes(size - _END, _END)
        self.directory = self.get(Place(int.from_bytes(end[:8], "big"), int.from_bytes(end[8:12], "big"), int.from_bytes(end[12:], "big")), Directory)

    def get(self, place: Place, kind: type[Kind]) -> Kind:
        """The value at PLACE."""
        data = self._bytes(place.start, place.length)
        if zlib.crc32(data) != place.check:
            raise BrokenIndexError
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise BrokenIndexError from error

    def row(self, leaves: Sequence[Place], number: int, kind: type[Kind]) -> Kind:
        """Row NUMBER of a long table; BrokenIndexError where there is none."""
        try:
            return self.get(leaves[number // LEAF], list[kind])[number % LEAF]  # type: ignore[valid-type]
        except IndexError as error:
            raise BrokenIndexError from error

    def _bytes(self, start: int, length: int) -> bytes:
        try:
            self._stream.seek(start)
        except (OverflowError, ValueError) as error:
            raise BrokenIndexError from error
        return self._stream.read(length)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
