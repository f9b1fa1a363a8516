"""Spans of a request that SGLang traces itself: they have its trace and hang under its span; without it nothing changes."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tracers import carry, encode
from tracers import vocabulary as v
from tracers.encode import Encoder, Shape, trace_id
from tracers.points import ALL
from tracers.read import trace
from tracers.record import Record

TRACE, THREAD, ROOT = 0xABCDEF0123456789, 0x1122334455667788, 0x99
OTHER = 0x5555


@pytest.fixture(autouse=True)
def _no_joins() -> Any:
    carry.joins.clear()
    yield
    carry.joins.clear()


def span(trace_id: int, span_id: int) -> Any:
    """A span of OpenTelemetry, as far as it is looked at."""
    return SimpleNamespace(get_span_context=lambda: SimpleNamespace(trace_id=trace_id, span_id=span_id))


def request(**context: Any) -> Any:
    """A request with SGLang's trace context, as TraceReqContext holds it."""
    return SimpleNamespace(rid="a", time_stats=SimpleNamespace(trace_ctx=SimpleNamespace(**{"tracing_enable": True, **context})))


def joined(req: Any) -> dict[str, tuple[str, str]]:
    """What the reader has left for the writer."""
    trace.joined((None, req), {})
    return dict(carry.joins)


def test_a_request_is_found_under_the_schedulers_own_span() -> None:
    """Each rank has a span of its own for the request: what the rank did belongs under it."""
    req = request(thread_context=SimpleNamespace(thread_span=span(TRACE, THREAD)), root_span_context=object())
    assert joined(req) == {"a": (f"{TRACE:032x}", f"{THREAD:016x}")}


def test_where_another_process_makes_the_schedulers_span_the_requests_own_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """TraceReqContextAsync has no thread context, and the request's context may have come from another process."""
    otel = SimpleNamespace(get_current_span=lambda context: span(*context))
    monkeypatch.setitem(sys.modules, trace.OTEL, otel)
    assert joined(request(root_span_context=(TRACE, ROOT))) == {"a": (f"{TRACE:032x}", f"{ROOT:016x}")}


@pytest.mark.parametrize(
    "req",
    [
        SimpleNamespace(rid="a"),
        SimpleNamespace(rid="a", time_stats=None),
        SimpleNamespace(rid="a", time_stats=SimpleNamespace(trace_ctx=SimpleNamespace(tracing_enable=False))),
        request(thread_context=None, root_span_context=None),
        request(thread_context=SimpleNamespace(thread_span=None)),
        request(thread_context=SimpleNamespace(thread_span=span(0, 0))),
    ],
    ids=["no statistics", "none", "off", "not begun", "no span", "no ids"],
)
def test_without_the_engines_trace_there_is_none_to_join(req: Any) -> None:
    """Tracing is off, has not begun, or was dropped: the trace id stays the one that is derived."""
    assert joined(req) == {}


def test_what_waits_for_the_writer_is_bounded() -> None:
    """A writer that is stuck does not cost the engine memory."""
    for number in range(carry.MOST_JOINS + 3):
        carry.join(str(number), 1, 1)
    assert len(carry.joins) == carry.MOST_JOINS


# -- the writer ----------------------------------------------------------------------------------------------------------
def encoder() -> Encoder:
    """An encoder of one point, whose joins are those that readers leave."""
    made = Encoder({"p": Shape(v.PREFETCH_GATE, ())}, lambda point, fault: None, lambda late: None)
    made.rename("host:1:2")
    made.joins = carry.joins
    return made


def spans(made: Encoder, *records: tuple[int, int, str | None]) -> list[dict[str, Any]]:
    """Spans of records, each (number, parent's number, request)."""
    told: list[Record] = [("p", 1, 2, number, parent, rid, (1, "t"), (), None) for number, parent, rid in records]
    return [json.loads(text) for text in made.spans_of(told)]


def test_spans_of_the_request_have_its_trace_and_only_the_topmost_its_parent() -> None:
    """A span inside another one of ours keeps that; other requests and the process keep their own traces."""
    made = encoder()
    carry.join("a", TRACE, THREAD)
    top, inner, other, own = spans(made, (1, 0, "a"), (2, 1, "a"), (3, 0, "b"), (4, 0, None))
    assert {top["traceId"], inner["traceId"]} == {f"{TRACE:032x}"}
    assert top["parentSpanId"] == f"{THREAD:016x}"
    assert inner["parentSpanId"] == top["spanId"]
    assert (other["traceId"], own["traceId"]) == (trace_id("b"), trace_id("host:1:2"))
    assert "parentSpanId" not in other
    assert "parentSpanId" not in own
    assert carry.joins == {}


def test_a_repeated_request_id_has_the_trace_of_its_latest_attempt() -> None:
    """What was remembered of the first attempt, traced or not, gives way."""
    made = encoder()
    assert spans(made, (1, 0, "a"))[0]["traceId"] == trace_id("a")
    for found in (TRACE, OTHER):
        carry.join("a", found, THREAD)
        assert spans(made, (2, 0, "a"))[0]["traceId"] == f"{found:032x}"


def test_many_requests_do_not_fill_memory_nor_lose_the_trace_of_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten first; texts of requests that are forgotten before are made again with the same trace."""
    monkeypatch.setattr(encode, "MOST_JOINED", 8)
    monkeypatch.setattr(encode, "MOST_NAMES", 2)
    made = encoder()
    for number in range(10):
        carry.join(f"r{number}", number + 1, THREAD)
        spans(made, (number, 0, f"r{number}"))
    found = {number: spans(made, (20 + number, 0, f"r{number}"))[0]["traceId"] for number in (0, 1, 2, 9)}
    assert found == {0: trace_id("r0"), 1: trace_id("r1"), 2: f"{3:032x}", 9: f"{10:032x}"}


def test_the_row_looks_before_anything_of_the_request_is_recorded() -> None:
    """The gate is called inside, and its span is queued before that of the call around it."""
    (queued,) = (point for point in ALL if point.id == "request.queued")
    assert queued.before is trace.joined
