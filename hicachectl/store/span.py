"""A span as it is read: core fields decoded at once, attributes when they are first asked for."""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from tracers import vocabulary as v

Value: TypeAlias = str | int | float | bool | list[Any]
"""What an attribute may hold: a scalar, or a list of scalars."""

_ERROR_STATUS = (2, "2", "STATUS_CODE_ERROR")
_NOTHING = Raw(b"[]")
_RID = re.compile(rb'\{"key": ?"' + re.escape(v.RID.encode()) + rb'", ?"value": ?\{"stringValue": ?"([^"\\]*)"\}')
_RID_SOMEHOW = re.compile(re.escape(v.RID.encode()) + rb"|\\u")
"""A key may be written in other ways; then the attributes have to be decoded to see."""
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
    line: int = field(name="(line)", default=-1)
    """Which of the recording's lines it stands in, where its file is mapped."""

    @property
    def attributes(self) -> dict[str, Value]:
        """Attributes by key; what cannot be read as an attribute is left out."""
        if self.decoded is None:
            self.decoded = attributes_of(self.raw)
        return self.decoded

    @property
    def rid(self) -> str | None:
        """The request id that it carries, or None; found without decoding the rest where it is written as everybody writes it."""
        if self.decoded is None:
            plain = _RID.search(self.raw)
            if plain is not None:
                with suppress(UnicodeError):
                    return str(plain[1], "utf-8")
            elif _RID_SOMEHOW.search(self.raw) is None:
                return None
        found = self.attributes.get(v.RID)
        return found if isinstance(found, str) else None

    def forget(self) -> None:
        """Let go of the decoded attributes where they can be decoded again when they are asked for."""
        if self.raw is not _NOTHING:
            self.decoded = None

    @property
    def error(self) -> bool:
        """Whether the call ended in an exception."""
        return self.status is not None and self.status.code in _ERROR_STATUS

    @property
    def thread_id(self) -> int:
        """The operating system's number of the thread that wrote it, 0 where it is not told."""
        value = self.attributes.get("thread.id")
        return value if isinstance(value, int) else 0

    @property
    def thread_name(self) -> str:
        """Name of the thread that wrote it, '' where it is not told."""
        value = self.attributes.get("thread.name")
        return value if isinstance(value, str) else ""

    @property
    def duration_ns(self) -> int:
        """From start to end; 0 where the clock went backwards."""
        return max(0, self.end_ns - self.start_ns)


class _Scalar(Struct, gc=False):
    stringValue: str | UnsetType = UNSET  # noqa: N815 - the names of OTLP/JSON
    intValue: int | UnsetType = UNSET  # noqa: N815
    boolValue: bool | UnsetType = UNSET  # noqa: N815
    doubleValue: float | UnsetType = UNSET  # noqa: N815


class _Values(Struct, gc=False):
    values: list[_Scalar] = []


class _AnyValue(_Scalar, gc=False):
    arrayValue: _Values | UnsetType = UNSET  # noqa: N815


class _KeyValue(Struct, gc=False):
    key: str
    value: _AnyValue


_decode = msgspec.json.Decoder(list[_KeyValue], strict=False).decode
_decode_one = msgspec.json.Decoder(_KeyValue, strict=False).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""What decoding foreign bytes can raise."""


def attributes_of(raw: Raw | bytes) -> dict[str, Value]:
    """OTLP/JSON's list of key and value as a plain mapping; integers may be strings or numbers there."""
    try:
        pairs: Iterator[_KeyValue] = iter(_decode(raw))
    except UNREADABLE:
        pairs = _readable(raw)
    found: dict[str, Value] = {}
    for pair in pairs:
        told = pair.value
        # Nearly all are strings and integers: a call for each would cost as much as the decoding.
        value: Value | UnsetType | None = told.stringValue
        if value is UNSET and (value := told.intValue) is UNSET:
            value = _plain(told)
        if value is not None:
            found[pair.key] = value
    return found


def _readable(raw: Raw | bytes) -> Iterator[_KeyValue]:
    """The pairs that can be read where the list as a whole cannot."""
    try:
        parts = _decode_list(raw)
    except UNREADABLE:
        return
    for part in parts:
        try:
            yield _decode_one(part)
        except UNREADABLE:
            continue


def _plain(value: _AnyValue) -> Value | None:
    if value.arrayValue is UNSET:
        return _scalar(value)
    return [one for one in map(_scalar, value.arrayValue.values) if one is not None]


def _scalar(value: _Scalar) -> str | int | float | bool | None:
    if value.stringValue is not UNSET:
        return value.stringValue
    if value.intValue is not UNSET:
        return value.intValue
    if value.boolValue is not UNSET:
        return value.boolValue
    found = value.doubleValue
    if found is UNSET:
        return None
    # JSON has no number for these: they stay the words that OTLP/JSON writes.
    return found if math.isfinite(found) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(found, "NaN")


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
