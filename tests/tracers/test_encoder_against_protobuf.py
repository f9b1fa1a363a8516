"""What is written, read by protobuf's own JSON mapping and compared with the encoder of OpenTelemetry's SDK."""

import json
import math
from base64 import b64encode
from typing import Any

import pytest
from desk import KEYS, Desk, anything, as_written, patient, record, texts
from hypothesis import given
from hypothesis import strategies as st

from tracers import vocabulary as v

trace_encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
from google.protobuf import json_format  # noqa: E402 - both come with the encoder
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402


def protobuf(text: bytes) -> Any:
    """The export request as protobuf's own JSON mapping reads it, ids put into the form that it knows."""
    document = json.loads(text)
    for group in document["resourceSpans"]:
        for span in group["scopeSpans"][0]["spans"]:
            # OTLP/JSON writes ids in hex, where the mapping of protobuf has base64 (opentelemetry-proto, docs/specification.md).
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:
                    span[name] = b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(document, ExportTraceServiceRequest())


def plain(value: Any) -> Any:
    """An AnyValue of protobuf as a plain value."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(each) for each in value.array_value.values]
    return getattr(value, kind)


@patient
@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=6), texts | st.none())
def test_protobuf_reads_what_is_written(rows: list[tuple[Any, Any]], rid: str | None) -> None:
    """The JSON mapping of opentelemetry-proto accepts every line, and finds the values with their types."""
    desk = Desk()
    request = protobuf(desk.line(*(record(values, number=number, rid=rid) for number, values in enumerate(rows, 1))))
    for span, values in zip(request.resource_spans[0].scope_spans[0].spans, rows, strict=True):
        found = {each.key: plain(each.value) for each in span.attributes}
        for key, value in zip(KEYS, values, strict=True):
            assert found.get(key) == as_written(value)
            assert value is None or type(found[key]) is type(as_written(value))
        assert (span.kind, len(span.trace_id), len(span.span_id)) == (1, 16, 8)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_that_json_lacks_are_known_to_protobuf(value: float) -> None:
    """NaN and the infinities are written as protobuf's JSON mapping has them."""
    (span,) = protobuf(Desk().line(record((value, 1)))).resource_spans[0].scope_spans[0].spans
    found = {each.key: plain(each.value) for each in span.attributes}["a"]
    assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize("value", [1 << 63, 1 << 200, -(1 << 63) - 1])
def test_an_integer_that_otlp_does_not_know_does_not_cost_the_batch(value: int) -> None:
    """A number beyond 64 bits is written as the nearest one, alone and in a list, so that a collector takes the line."""
    nearest = max(-(1 << 63), min(value, (1 << 63) - 1))
    request = protobuf(Desk().line(record((value, [value]))))
    found = {each.key: plain(each.value) for each in request.resource_spans[0].scope_spans[0].spans[0].attributes}
    assert (found["a"], found["b"]) == (nearest, [nearest])


def test_the_sdk_s_own_encoder_agrees() -> None:
    """OpenTelemetry's encoder makes the same message of the same span."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    values = ("text é", 5)
    attributes = {"thread.id": 7, "thread.name": "MainThread", v.RID: "r", **dict(zip(KEYS, values, strict=True))}
    span = provider.get_tracer("t").start_span(v.FLUSH, attributes=attributes, start_time=10)
    span.end(20)
    theirs = trace_encoder.encode_spans(exporter.get_finished_spans()).resource_spans[0].scope_spans[0].spans[0]
    ours = protobuf(Desk().line(record(values, rid="r", start=10, end=20))).resource_spans[0].scope_spans[0].spans[0]
    assert (ours.name, ours.kind, ours.start_time_unix_nano, ours.end_time_unix_nano) == (theirs.name, theirs.kind, 10, 20)
    assert list(ours.attributes) == list(theirs.attributes)
