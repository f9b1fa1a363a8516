"""OTLP/JSON lines as protobuf's wire format, which http/protobuf and gRPC carry.

Written by hand because the messages are few and do not change: no package is needed inside the engine, and a line is encoded several times
faster than through protobuf's own reader of JSON. Field numbers: opentelemetry-proto `trace/v1/trace.proto`, `common/v1/common.proto`,
`resource/v1/resource.proto`, `metrics/v1/metrics.proto`, `collector/{trace,metrics}/v1/*_service.proto`. The wire format: protobuf's
`encoding` page.
"""

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

VARINT, FIXED64, LENGTH = 0, 1, 2
_U64 = (1 << 64) - 1
_SMALL = [bytes([number]) for number in range(128)]


class MalformedError(ValueError):
    """Bytes that are no protobuf message."""


def varint(number: int) -> bytes:
    """NUMBER as a varint; a negative one takes the ten bytes of its 64-bit two's complement."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= _U64
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tag(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def _sized(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


Encode = Callable[[Any], bytes]
"""A JSON value -> the bytes of its field, tag included."""


def _text(field: int) -> Encode:
    tag = _tag(field, LENGTH)
    return lambda value: _sized(tag, value.encode("utf-8", "replace"))


def _hex(field: int) -> Encode:
    tag = _tag(field, LENGTH)
    return lambda value: _sized(tag, bytes.fromhex(value))


def _number(field: int) -> Encode:
    tag = _tag(field, VARINT)
    return lambda value: tag + varint(int(value))


def _time(field: int) -> Encode:
    tag, pack = _tag(field, FIXED64), struct.Struct("<Q").pack
    return lambda value: tag + pack(int(value))


def _double(field: int) -> Encode:
    tag, pack = _tag(field, FIXED64), struct.Struct("<d").pack
    return lambda value: tag + pack(float(value))


def _signed(field: int) -> Encode:
    tag, pack = _tag(field, FIXED64), struct.Struct("<q").pack
    return lambda value: tag + pack(int(value))


def _packed(field: int, kind: str, number: Callable[[Any], Any]) -> Encode:
    """Many numbers of eight bytes, without a tag for each."""
    tag = _tag(field, LENGTH)
    return lambda values: _sized(tag, struct.pack(f"<{len(values)}{kind}", *map(number, values)))


def _one(field: int, fields: dict[str, Encode]) -> Encode:
    tag = _tag(field, LENGTH)
    return lambda value: _sized(tag, _message(value, fields))


def _many(field: int, fields: dict[str, Encode]) -> Encode:
    one = _one(field, fields)
    return lambda values: b"".join(map(one, values))


def _message(value: dict[str, Any], fields: dict[str, Encode]) -> bytes:
    return b"".join([fields[key](part) for key, part in value.items() if key in fields])


ANY_VALUE: dict[str, Encode] = {"stringValue": _text(1), "boolValue": _number(2), "intValue": _number(3), "doubleValue": _double(4)}
ANY_VALUE["arrayValue"] = _one(5, {"values": _many(1, ANY_VALUE)})


def _attributes(field: int) -> Encode:
    """Pairs of key and value: most of what there is to encode, and their keys come again and again."""
    tag, keys, value_tag = _tag(field, LENGTH), dict[str, bytes](), _tag(2, LENGTH)

    def encode(pairs: Any) -> bytes:
        out = []
        for pair in pairs:
            key = keys.get(pair["key"])
            if key is None:
                key = keys[pair["key"]] = _text(1)(pair["key"])
            for kind, told in pair["value"].items():
                body = ANY_VALUE[kind](told)
                body = key + value_tag + varint(len(body)) + body
                out.append(tag + varint(len(body)) + body)
        return b"".join(out)

    return encode


RESOURCE = {"attributes": _attributes(1)}
SCOPE = {"name": _text(1), "version": _text(2)}
STATUS = {"message": _text(2), "code": _number(3)}
LINK = {"traceId": _hex(1), "spanId": _hex(2)}
SPAN = {
    "traceId": _hex(1),
    "spanId": _hex(2),
    "parentSpanId": _hex(4),
    "name": _text(5),
    "kind": _number(6),
    "startTimeUnixNano": _time(7),
    "endTimeUnixNano": _time(8),
    "attributes": _attributes(9),
    "links": _many(13, LINK),
    "status": _one(15, STATUS),
}
SCOPE_SPANS = {"scope": _one(1, SCOPE), "spans": _many(2, SPAN)}
RESOURCE_SPANS = {"resource": _one(1, RESOURCE), "scopeSpans": _many(2, SCOPE_SPANS)}
_TIMES = {"startTimeUnixNano": _time(2), "timeUnixNano": _time(3)}
NUMBER_POINT = {**_TIMES, "asInt": _signed(6), "attributes": _attributes(7)}
HISTOGRAM_POINT = {
    **_TIMES,
    "count": _time(4),
    "sum": _double(5),
    "bucketCounts": _packed(6, "Q", int),
    "explicitBounds": _packed(7, "d", float),
    "attributes": _attributes(9),
}
GAUGE = {"dataPoints": _many(1, NUMBER_POINT)}
SUM = {"dataPoints": _many(1, NUMBER_POINT), "aggregationTemporality": _number(2), "isMonotonic": _number(3)}
HISTOGRAM = {"dataPoints": _many(1, HISTOGRAM_POINT), "aggregationTemporality": _number(2)}
METRIC = {"name": _text(1), "description": _text(2), "unit": _text(3), "gauge": _one(5, GAUGE), "sum": _one(7, SUM), "histogram": _one(9, HISTOGRAM)}
SCOPE_METRICS = {"scope": _one(1, SCOPE), "metrics": _many(2, METRIC)}
RESOURCE_METRICS = {"resource": _one(1, RESOURCE), "scopeMetrics": _many(2, SCOPE_METRICS)}
REQUEST = {"resourceSpans": _many(1, RESOURCE_SPANS), "resourceMetrics": _many(1, RESOURCE_METRICS)}
"""A request of traces has the one, a request of metrics the other."""


def request(line: bytes) -> bytes:
    """One export request as OTLP/JSON -> the same as protobuf. Requests put one behind the other are one request with all their spans."""
    return _message(json.loads(line), REQUEST)


def rejected(answer: bytes) -> int:
    """Spans or data points that the collector refused, according to its Export...ServiceResponse; MalformedError where ANSWER is none."""
    refused = 0
    for field, value in _fields(answer):
        if field == 1 and isinstance(value, bytes):
            refused = next((told for inner, told in _fields(value) if inner == 1 and isinstance(told, int)), 0)
    return refused


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = _read(message, at)
        kind, size = tag & 7, 0
        if kind == VARINT:
            value, at = _read(message, at)
            yield tag >> 3, value
            continue
        if kind == LENGTH:
            size, at = _read(message, at)
        elif kind in (FIXED64, 5):
            size = 8 if kind == FIXED64 else 4
        else:
            raise MalformedError(f"no message: wire type {kind}")
        if at + size > len(message):
            raise MalformedError("no message: it ends early")
        yield tag >> 3, message[at : at + size]
        at += size


def _read(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise MalformedError("no message: a number without an end")
