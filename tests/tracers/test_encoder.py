"""OTLP/JSON by plans: what comes out is what was recorded, read by protobuf's own parser and by ours."""

import enum
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicachectl.store.lines import Decoder
from hicachectl.store.span import Span
from tracers import encode
from tracers import vocabulary as v
from tracers.encode import Encoder, Shape, attribute, line, shapes, trace_id
from tracers.points import ALL
from tracers.record import Late, Record

KEYS = ("a", "b")
THREAD = (7, "MainThread")


class Desk:
    """An encoder for two attributes, and whom it blamed."""

    def __init__(self, keys: tuple[str, ...] = KEYS) -> None:
        self.blamed: list[tuple[str, str]] = []
        self.released: list[Late] = []
        self.encoder = Encoder({"p": Shape(v.FLUSH, keys), "q": Shape(v.RESET, ())}, lambda point, fault: self.blamed.append((point, type(fault).__name__)), self.released.append)
        self.encoder.rename("host:1:2")

    def line(self, *records: Record) -> bytes:
        """The records as one export request."""
        return line(attribute(v.R_ENGINE, "host:1:2"), '{"name":"s"}', self.encoder.spans_of(records))

    def spans(self, *records: Record) -> list[Span]:
        """The records, written and read again."""
        return Decoder().spans(self.line(*records))


def record(values: Any, point: str = "p", **told: Any) -> Record:
    """A record of a call."""
    row = {"start": 1_700_000_000_000_000_001, "end": 1_700_000_000_000_000_999, "number": 5, "parent": 0, "rid": None, "thread": THREAD, "error": None, **told}
    return (point, row["start"], row["end"], row["number"], row["parent"], row["rid"], row["thread"], values, row["error"])


def protobuf(text: bytes) -> Any:
    """The export request as protobuf's own JSON mapping reads it, ids put into the form that it knows."""
    pytest.importorskip("opentelemetry.proto")
    from base64 import b64encode

    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

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


texts = st.text(st.characters(exclude_categories=())) | st.sampled_from(["", "\ud800", '"}],"spanId":"', "\\", "%s%d{0}", "\x00\n\x7f", "é😀"])
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
scalars = texts | numbers | st.booleans() | st.floats(allow_nan=False)
anything = scalars | st.none() | st.lists(scalars, max_size=4) | st.tuples(scalars, scalars)


def as_written(value: Any) -> Any:
    """What a value is read back as: half surrogate pairs are escaped, tuples are lists."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return [as_written(each) for each in value] if isinstance(value, (list, tuple)) else value


@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=6), texts | st.none(), st.integers(0, 1 << 40))
def test_what_is_written_is_read_back_equal(rows: list[tuple[Any, Any]], rid: str | None, parent: int) -> None:
    """For any values, strings of any characters among them, our own reader finds exactly what was recorded."""
    desk = Desk()
    found = desk.spans(*(record(values, number=number, parent=parent, rid=rid) for number, values in enumerate(rows, 1)))
    assert desk.blamed == []
    for number, (span, values) in enumerate(zip(found, rows, strict=True), 1):
        carried = {key: as_written(value) for key, value in zip(KEYS, values, strict=True) if value is not None}
        carried |= {"thread.id": 7, "thread.name": "MainThread"} | ({v.RID: as_written(rid)} if rid is not None else {})
        assert span.attributes == carried
        assert {key: type(value) for key, value in span.attributes.items()} == {key: type(value) for key, value in carried.items()}
        assert (span.name, span.start_ns, span.end_ns) == (v.FLUSH, 1_700_000_000_000_000_001, 1_700_000_000_000_000_999)
        assert span.span_id == desk.encoder.span_id(number)
        assert span.parent_id == (desk.encoder.span_id(parent) if parent else "")
        assert span.trace_id == trace_id(rid or "host:1:2")


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
def test_floats_that_json_lacks_stay_floats(value: float) -> None:
    """NaN and the infinities are written as protobuf's JSON mapping has them, and read back as floats by both readers."""
    desk = Desk()
    (span,) = desk.spans(record((value, [value])))
    theirs = {each.key: plain(each.value) for each in protobuf(desk.line(record((value, 1)))).resource_spans[0].scope_spans[0].spans[0].attributes}
    for found in (span.attributes["a"], span.attributes["b"][0], theirs["a"]):  # type: ignore[index]
        assert type(found) is float
        assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize("value", [1 << 63, 1 << 200, -(1 << 63) - 1])
def test_an_integer_that_otlp_does_not_know_does_not_cost_the_batch(value: int) -> None:
    """A number beyond 64 bits is written as the nearest one, alone and in a list, so that a collector takes the line."""
    nearest = max(-(1 << 63), min(value, (1 << 63) - 1))
    request = protobuf(Desk().line(record((value, [value]))))
    found = {each.key: plain(each.value) for each in request.resource_spans[0].scope_spans[0].spans[0].attributes}
    assert (found["a"], found["b"]) == (nearest, [nearest])


def test_subclasses_of_plain_kinds_are_written_as_their_values() -> None:
    """Enumerations and other subclasses of str and int, as engines like them, are written as what they stand for."""

    class Text(str, enum.Enum):
        """Text with a name."""

        ONE = "one"

    class Number(enum.IntEnum):
        """A number with a name."""

        TWO = 2

    (span,) = Desk().spans(record((Text.ONE, Number.TWO)))
    assert (span.attributes["a"], span.attributes["b"]) == ("one", 2)


NONSENSE: list[Any] = [None, 5, "ab", [1, 2], {"a": 1, "b": 2}, (1,), (1, 2, 3), (object(), 1), ({"x": 1}, 1), (1, [object()]), (b"bytes", 1), (1, {3})]


@pytest.mark.parametrize("values", NONSENSE, ids=repr)
@pytest.mark.parametrize("first", [(1, 2), None], ids=["known", "unknown"])
def test_nonsense_of_a_reader_is_blamed_on_its_point_and_costs_no_other_span(values: Any, first: Any) -> None:
    """What is no tuple of as many plain values as the row has attributes is left out, its neighbours are written."""
    desk = Desk()
    rows = [record(first or ("x", "y"), number=1), record(values, number=2), record((), "q", number=3)]
    found = desk.spans(*rows)
    assert [span.span_id for span in found] == [desk.encoder.span_id(1), desk.encoder.span_id(3)]
    assert [point for point, _ in desk.blamed] == ["p"]
    assert desk.encoder.spans == {"p": 1, "q": 1}


class Detail(Late):
    """Detail that is worked out late."""

    def __init__(self, pairs: Any) -> None:
        super().__init__(3)
        self.told = pairs

    def pairs(self) -> list[tuple[str, Any]]:
        """What it was made with."""
        if isinstance(self.told, Exception):
            raise self.told
        return list(self.told)


def test_detail_expands_to_its_attributes_and_is_released() -> None:
    """The place of detail takes any number of attributes, none among them, and its weight is given back."""
    desk = Desk()
    details = [Detail([("x", 1), ("y", None), ("z", ["s"])]), Detail([])]
    one, two = desk.spans(*(record((detail, "b")) for detail in details))
    assert {key: one.attributes[key] for key in ("x", "z", "b")} == {"x": 1, "z": ["s"], "b": "b"}
    assert "y" not in one.attributes
    assert two.attributes["b"] == "b"
    assert desk.released == details


@pytest.mark.parametrize("told", [ValueError("v"), [("x", object())], [("x",)]], ids=["raises", "no value", "no pair"])
def test_detail_that_cannot_be_worked_out_costs_only_itself(told: Any) -> None:
    """The span is written with a mark that detail is missing, the point is blamed, the weight given back."""
    desk = Desk()
    detail = Detail(told)
    (span,) = desk.spans(record((detail, 1)))
    assert (span.attributes[v.DETAIL_CUT], span.attributes["b"]) == (True, 1)
    assert [point for point, _ in desk.blamed] == ["p"]
    assert desk.released == [detail]


def test_detail_of_a_span_that_is_given_up_is_released() -> None:
    """A reader's nonsense beside detail does not keep the detail's weight."""
    desk = Desk()
    detail = Detail([])
    desk.spans(record((detail, object())))
    assert detail in desk.released


def test_an_exception_is_told_with_status_and_class() -> None:
    """A failed call has an error status, the exception's class, and its text where the record has one."""
    one, two = Desk().spans(record((1, 2), error=("ValueError", None)), record((1, 2), error=("Odd", 'a "text"')))
    assert (one.error, one.attributes[v.ERROR]) == (True, "ValueError")
    assert v.ERROR_TEXT not in one.attributes
    assert (two.error, two.attributes[v.ERROR_TEXT]) == (True, 'a "text"')


def test_a_request_has_one_trace_on_every_rank_and_work_for_none_has_its_process_s() -> None:
    """The trace id is derived from the request id alone; without one, from the engine."""
    one, other = Desk(), Desk()
    other.encoder.rename("elsewhere:9:9")
    assert one.spans(record((1, 2), rid="r"))[0].trace_id == other.spans(record((1, 2), rid="r"))[0].trace_id
    assert one.spans(record((1, 2)))[0].trace_id != other.spans(record((1, 2)))[0].trace_id


def test_span_ids_are_of_16_digits_differ_between_processes_and_count_up() -> None:
    """Ids come from the operating system: an engine seeds `random` alike on all ranks, and ids differ all the same."""
    import random

    desks = []
    for _ in range(50):
        random.seed(1)
        desks.append(Desk().encoder)
    ids = [desk.span_id(number) for desk, number in itertools.product(desks, range(1, 100))]
    assert len(set(ids)) == len(ids)
    assert {len(each) for each in ids} == {16}
    assert all(each != "0" * 16 for each in ids)


def test_a_process_that_takes_another_identity_has_other_ids_and_traces() -> None:
    """After a fork the child's spans have ids and a trace of their own, though its plans are the parent's."""
    desk = Desk()
    (before,) = desk.spans(record((1, 2)))
    desk.encoder.rename("host:2:3")
    (after,) = desk.spans(record((1, 2)))
    assert before.span_id != after.span_id
    assert (before.trace_id, after.trace_id) == (trace_id("host:1:2"), trace_id("host:2:3"))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, threads and kinds of values that never come again do not grow the process."""
    monkeypatch.setattr(encode, "MOST_NAMES", 50)
    desk = Desk(("a",))
    for number in range(500):
        kind = type(f"Text{number}", (str,), {})
        desk.encoder.spans_of([record((kind("x"),), rid=str(number), thread=(number, "t"))])
    assert desk.blamed == []
    for held in (desk.encoder._plans, desk.encoder._requests, desk.encoder._threads):
        assert 40 < len(held) < 60


def test_every_row_that_makes_spans_has_a_shape() -> None:
    """The shapes of the rows hold their attributes in the readers' order."""
    made = shapes(ALL)
    assert {point.id: point.attributes for point in ALL if point.span} == {name: shape.keys for name, shape in made.items()}


def test_the_sdk_s_own_encoder_agrees() -> None:
    """OpenTelemetry's encoder makes the same message of the same span."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    values = ("text é", 5)
    attributes = {"thread.id": 7, "thread.name": "MainThread", v.RID: "r", **dict(zip(KEYS, values, strict=True))}
    span = provider.get_tracer("t").start_span(v.FLUSH, attributes=attributes, start_time=10)
    span.end(20)
    theirs = encode_spans(exporter.get_finished_spans()).resource_spans[0].scope_spans[0].spans[0]
    ours = protobuf(Desk().line(record(values, rid="r", start=10, end=20))).resource_spans[0].scope_spans[0].spans[0]
    assert (ours.name, ours.kind, ours.start_time_unix_nano, ours.end_time_unix_nano) == (theirs.name, theirs.kind, 10, 20)
    assert list(ours.attributes) == list(theirs.attributes)
