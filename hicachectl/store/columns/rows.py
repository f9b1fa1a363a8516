"""Spans as rows of the table, and rows as spans: values are text there, the vocabulary gives them their kind back."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hicachectl.store import kinds
from hicachectl.store.span import Link, Span, Status, Value
from tracers import vocabulary as v

ERROR = "Error"
_ERRORS = (ERROR, "STATUS_CODE_ERROR")
_WORD = 1 << 64


class Stored(msgspec.Struct, array_like=True, gc=False):
    """A row as the questions of this room select it: see `sql/spans_*.sql`."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    took_ns: int
    status: str
    engine: str
    attributes: dict[str, str]
    link_traces: list[str]
    link_spans: list[str]


class Resource(msgspec.Struct, array_like=True):
    """What one engine says of itself."""

    engine: str
    attributes: dict[str, str]


def spans(rows: Iterator[Stored]) -> Iterator[Span]:
    """The spans that ROWS are."""
    for row in rows:
        links = tuple(Link(trace, span) for trace, span in zip(row.link_traces, row.link_spans, strict=False))
        yield Span(
            name=row.name,
            trace_id=row.trace_id,
            span_id=row.span_id,
            parent_id=row.parent_id,
            start_ns=row.start_ns,
            end_ns=row.start_ns + row.took_ns,
            links=links,
            status=Status(2) if row.status in _ERRORS else None,
            engine=row.engine,
            decoded=told(row.attributes, kinds.ATTRIBUTES),
        )


def told(attributes: dict[str, str], kind: dict[str, str]) -> dict[str, Value]:
    """Attributes with the kinds of the vocabulary."""
    restored, get = kinds.restored, kind.get
    return {key: text if (is_a := get(key)) is None or is_a == "str" else restored(text, is_a) for key, text in attributes.items()}


def row(span: Span, resource: dict[str, Value]) -> bytes:
    """SPAN as the exporter would write it, as a JSON object; RESOURCE is that of its engine."""
    seconds, nanoseconds = divmod(span.start_ns, 1_000_000_000)
    cells: dict[str, Any] = {
        "Timestamp": f"{seconds}.{nanoseconds:09d}",
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "ParentSpanId": span.parent_id,
        "SpanName": span.name,
        "SpanKind": "Internal",
        "ServiceName": resource.get(v.R_SERVICE, ""),
        "ResourceAttributes": {key: kinds.as_text(value) for key, value in resource.items()},
        "ScopeName": v.R_SCOPE,
        "SpanAttributes": {key: kinds.as_text(value) for key, value in span.attributes.items()},
        # The exporter subtracts as unsigned: a clock that went backwards wraps.
        "Duration": (span.end_ns - span.start_ns) % _WORD,
        "StatusCode": ERROR if span.error else "Unset",
    }
    if span.links:
        cells["Links.TraceId"] = [link.trace_id for link in span.links]
        cells["Links.SpanId"] = [link.span_id for link in span.links]
        cells["Links.TraceState"] = [""] * len(span.links)
        cells["Links.Attributes"] = [{}] * len(span.links)
    return msgspec.json.encode(cells)
