"""A span as it is read: core fields decoded at once, each attribute when it is first asked for."""

import re
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, field

from hicachectl.store.attributes import MARKS, UNREADABLE, Value, attributes_of, is_plain, value_of
from tracers import vocabulary as v

__all__ = ["UNREADABLE", "Link", "Span", "Status", "Value", "attributes_of", "normal_id"]

_ERROR_STATUS = (2, "2", "STATUS_CODE_ERROR")
_NOTHING = Raw(b"[]")
_RID = MARKS[v.RID] + b'stringValue":"'
_PLAIN_RID = re.compile(re.escape(_RID) + rb'([\x00-!#-\[\]-\x7f]*)"').search
"""Finds a request id in which nothing is escaped, and which is ASCII."""
_HEX_DIGITS = {24: 32, 12: 16}
"""Length of an id in base64 -> in hex: writers that follow protobuf's own JSON mapping write ids in base64."""


class Link(Struct, gc=False, frozen=True):
    """Another span that this one belongs with."""

    trace_id: str = field(name="traceId")
    span_id: str = field(name="spanId")


class Status(Struct, gc=False):
    """How a call ended: 2 for an error."""

    code: int | str = 0


class Span(Struct, gc=False, eq=False):
    """One span of a recording; times are nanoseconds since the epoch, ids are hex digits, '' is no parent."""

    name: str
    trace_id: str = field(name="traceId")
    span_id: str = field(name="spanId")
    parent_id: str = field(name="parentSpanId", default="")
    start_ns: int = field(name="startTimeUnixNano", default=0)
    end_ns: int = field(name="endTimeUnixNano", default=0)
    links: tuple[Link, ...] = ()
    status: Status | None = None
    raw: Raw = field(name="attributes", default=_NOTHING)
    engine: str = field(name="(engine)", default="")
    decoded: dict[str, Any] | None = field(name="(decoded)", default=None)
    text: bytes | None = field(name="(text)", default=None)
    """RAW as it can be searched, once it was."""
    owner: str | UnsetType | None = field(name="(rid)", default=UNSET)
    """The request id, once it was looked for."""
    line: int = field(name="(line)", default=-1)
    """Which of the recording's lines it stands in, where its file is mapped."""

    @property
    def attributes(self) -> dict[str, Value]:
        """Attributes by key; what cannot be read as an attribute is left out."""
        if self.decoded is None:
            self.decoded = attributes_of(self.raw)
        return self.decoded

    def get(self, key: str) -> Value | None:
        """One attribute, or None; found where it stands, without decoding the others."""
        if self.decoded is not None:
            return self.decoded.get(key)
        text = self.text
        if text is None:
            text = self.text = bytes(self.raw)
            if not is_plain(text):
                return self.attributes.get(key)
        return value_of(text, key)

    @property
    def rid(self) -> str | None:
        """The request id that it carries, or None; looked for once."""
        if self.owner is UNSET:
            self.owner = self._rid()
        return self.owner

    def _rid(self) -> str | None:
        if self.decoded is None:
            # Asked of every span of a recording: nothing that was made for it stays. It stands near the beginning.
            found = _PLAIN_RID(self.raw)
            if found is not None:
                return found[1].decode("ascii")
            text = bytes(self.raw)
            if _RID not in text and is_plain(text):
                return None
        told = (attributes_of(self.raw) if self.decoded is None else self.decoded).get(v.RID)
        return told if isinstance(told, str) else None

    def forget(self) -> None:
        """Let go of what was decoded of the attributes, where it can be decoded again when it is asked for."""
        if self.raw is not _NOTHING:
            self.decoded = self.text = None

    @property
    def error(self) -> bool:
        """Whether the call ended in an exception."""
        return self.status is not None and self.status.code in _ERROR_STATUS

    @property
    def thread_id(self) -> int:
        """The operating system's number of the thread that wrote it, 0 where it is not told."""
        value = self.get("thread.id")
        return value if isinstance(value, int) else 0

    @property
    def thread_name(self) -> str:
        """Name of the thread that wrote it, '' where it is not told."""
        value = self.get("thread.name")
        return value if isinstance(value, str) else ""

    @property
    def duration_ns(self) -> int:
        """From start to end; 0 where the clock went backwards."""
        return max(0, self.end_ns - self.start_ns)


def normal_id(text: str) -> str:
    """An id in lower-case hex, whether it was written in hex or in base64; anything else as it is."""
    import base64  # noqa: PLC0415 - rare, and only for foreign writers
    import binascii  # noqa: PLC0415

    digits = _HEX_DIGITS.get(len(text))
    if digits is None:
        return text.lower()
    try:
        return base64.b64decode(text, validate=True).hex()
    except (binascii.Error, ValueError):
        return text
