"""The attributes of a span, from OTLP/JSON's list of key and value: all of them, or one where it stands."""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

Value: TypeAlias = str | int | float | bool | list[Any]
"""What an attribute may hold: a scalar, or a list of scalars."""


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
_decode_array = msgspec.json.Decoder(_Values, strict=False).decode
_decode_scalars = msgspec.json.Decoder(list[_Scalar], strict=False).decode
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


def array_of(raw: str) -> list[Any] | None:
    """The list that an ArrayValue of OTLP/JSON is, or None where RAW is none."""
    try:
        return [_scalar(each) for each in _decode_array(raw).values]
    except UNREADABLE:
        return None


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


_PLAIN = b'[{"key":"'
_STRING, _BOOL, _ARRAY = b'stringValue":"', b'boolValue":', b'arrayValue":{"values":['
_I, _S = b"is"
_QUOTE, _BRACKET = b'"', b"]"
_MOST_LISTS = 512
"""Lists remembered at most: what is listed (suffixes of object keys, above all) is the same in nearly every call."""


def is_plain(text: bytes) -> bool:
    """Whether TEXT is written as nearly everybody writes it: key first, no blanks, nothing escaped, so that a key can be searched for."""
    return text.startswith(_PLAIN) and b"\\" not in text


class _Marks(dict[str, bytes]):
    """What stands before the value of a key in a plain text; made when it is first asked for."""

    def __missing__(self, key: str) -> bytes:
        made = self[key] = b'{"key":"%b","value":{"' % key.encode()
        return made


MARKS = _Marks()
"""Key -> what stands before its value in a plain text."""
_PLAIN_INT = re.compile(rb'intValue":"([0-9]{1,18})"').match
"""An integer of so many digits surely fits 64 bits; a longer one is left to the decoder."""


def value_of(text: bytes, key: str) -> Value | None:
    """The attribute KEY of a plain TEXT, or None: the same that `attributes_of` has, and no other one is decoded."""
    mark = MARKS[key]
    # Of keys that come twice the last one counts.
    at = text.rfind(mark)
    if at < 0:
        return None
    at += len(mark)
    # Nearly all are integers and strings: a look at one letter tells them from each other.
    kind = text[at]
    if kind == _I:
        found = _PLAIN_INT(text, at)
        if found is not None:
            return int(found[1])
    elif kind == _S and text.startswith(_STRING, at):
        at += len(_STRING)
        told = text[at : text.find(_QUOTE, at)]
        if told.isascii():
            return told.decode("ascii")
    elif text.startswith(_BOOL, at):
        if text[at + len(_BOOL)] in b"tf":
            return text.startswith(b"t", at + len(_BOOL))
    elif text.startswith(_ARRAY, at):
        start = at + len(_ARRAY) - 1
        listed = _listed(text[start : text.find(_BRACKET, start) + 1])
        if listed is not None:
            return list(listed)
    return attributes_of(text).get(key)


@lru_cache(_MOST_LISTS)
def _listed(text: bytes) -> tuple[Any, ...] | None:
    """The scalars of a list; None where it cannot be decoded, as where a bracket in a string seemed to end it."""
    try:
        values = _decode_scalars(text)
    except UNREADABLE:
        return None
    return tuple(one for one in map(_scalar, values) if one is not None)
