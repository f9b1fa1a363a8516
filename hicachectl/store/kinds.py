"""The kind that the vocabulary gives to an attribute, and values as text: for what keeps columns, or strings alone."""

from typing import Any

import msgspec

from hicachectl.store.attributes import array_of
from hicachectl.store.span import Value
from tracers import vocabulary as v

ATTRIBUTES: dict[str, str] = {
    "thread.id": "int",
    "thread.name": "str",
    **{key: kind for key, (kind, _, _) in v.ATTRIBUTES.items()},
}
"""Attribute of a span -> str, int, float, bool, strs or ints; the thread is the writer's own addition."""
RESOURCE: dict[str, str] = dict(v.RESOURCE_KINDS)
"""The same for attributes of the resource."""

_decode = msgspec.json.decode


def as_text(value: Value) -> str:
    """VALUE as the OpenTelemetry Collector writes an attribute where only text can be kept (pcommon's `Value.AsString`)."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return msgspec.json.encode(value).decode()


def restored(text: str, kind: str | None) -> Value:
    """What `as_text` was given, by the kind that the vocabulary knows; text that is not of this kind stays text.

    Collectors differ in lists: the OpenTelemetry Collector writes `["a"]`, rotel the ArrayValue of OTLP/JSON.
    """
    if kind in (None, "str"):
        return text
    if kind == "bool":
        return {"true": True, "false": False}.get(text, text)
    try:
        found: Any = array_of(text) if kind in ("strs", "ints") and text.startswith("{") else _decode(text)
    except msgspec.DecodeError:
        return text
    if kind == "float" and isinstance(found, int):
        return float(found)
    return found if fits(found, kind) else text


def fits(value: Value, kind: str | None) -> bool:
    """Whether VALUE is of KIND."""
    if kind in ("strs", "ints"):
        return isinstance(value, list) and all(fits(each, kind[:-1]) for each in value)
    return type(value).__name__ == kind
