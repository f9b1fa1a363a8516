"""What metrics add up from spans: each row against made spans, and what is sent against protobuf's own classes."""

import json
from typing import Any

import pytest

from tracers import encode, meter, wire
from tracers import vocabulary as v
from tracers.meter import Histogram, Meter
from tracers.metrics import MOST_WAITING, ROWS, ZEROES
from tracers.otlp_metrics import Metrics
from tracers.record import Late, Record
from tracers.settings import Collector

MS = 1_000_000


def metered(*spans: tuple[Any, ...]) -> dict[tuple[str, ...], Any]:
    """The series after SPANS, each (name, attributes, rid, milliseconds); a histogram as (how many, seconds)."""
    made = Meter()
    for name, told, *rest in spans:
        rid, took = (*rest, None, None)[:2]
        made.take(name, told, 0, int((took or 0) * MS), rid)
    return {(metric, *values): number(told) for (metric, values), told in made.series.items()}


def counted(found: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
    """The series that are not at 0."""
    return {key: told for key, told in found.items() if told not in (0, (0, 0.0))}


def number(told: Any) -> Any:
    """A number, or how many amounts a histogram holds, and their sum in milliseconds."""
    return (sum(told.counts), round(told.sum * 1000, 3)) if isinstance(told, Histogram) else told


def prefill(prefix: int, prompt: int, **more: Any) -> dict[str, Any]:
    """Attributes of a first prefill."""
    return {v.OUTCOME: "ok", v.PREFIX_TOKENS: prefix, v.EXTEND_TOKENS: prompt - prefix, v.FIRST_CHUNK: True, v.PROMPT_TOKENS: prompt, **more}


def tiers(found: dict[tuple[str, ...], Any]) -> tuple[int, ...]:
    """Tokens by tier: device, host, storage, computed."""
    return tuple(found[v.M_TOKENS, tier] for tier in ("device", "host", "storage", "computed"))


def test_tokens_go_to_the_tier_where_they_lay_when_the_request_came() -> None:
    """Device and host as the match found them, storage as far as it was read; a later match of the same request changes nothing."""
    found = metered(
        (v.PREFETCH_GATE, {v.MATCHED_DEVICE: 16, v.MATCHED_HOST: 32}, "a"),
        (v.PREFETCH_FINISH, {v.DONE_TOKENS: 100}, "a"),
        (v.PREFETCH_GATE, {v.MATCHED_DEVICE: 500, v.MATCHED_HOST: 0}, "a"),
        (v.PREFILL, prefill(592, 597), "a"),
    )
    # 444 tokens more than was found or read: another request computed them meanwhile.
    assert tiers(found) == (16 + 444, 32, 100, 5)
    assert found[v.M_REQUESTS,] == 1


def test_without_a_match_the_engines_own_split_is_taken() -> None:
    """An engine without storage has a gate that matches nothing, or none."""
    told = prefill(48, 64, **{v.CLAIM_HOST: 16, v.CLAIM_STORAGE: 16})
    assert tiers(metered((v.PREFETCH_GATE, {}, "a"), (v.PREFILL, told, "a"))) == (16, 16, 16, 16)


@pytest.mark.parametrize(
    ("rid", "more"), [("HEALTH_CHECK_1", {}), ("a", {v.RETRACTED: True}), ("a", {v.FIRST_CHUNK: False}), (None, {})], ids=["health", "retracted", "chunk", "nobody"]
)
def test_only_the_first_prefill_of_a_users_request_counts(rid: str | None, more: dict[str, Any]) -> None:
    """Health checks, later chunks and what follows a retraction say nothing of reuse."""
    assert counted(metered((v.PREFILL, prefill(16, 32, **more), rid))) == {}


def test_a_request_that_came_again_after_its_end_is_matched_anew() -> None:
    """What was known of it goes with its end."""
    found = metered(
        (v.PREFETCH_GATE, {v.MATCHED_DEVICE: 0, v.MATCHED_HOST: 0}, "a"),
        (v.PREFILL, prefill(0, 32), "a"),
        (v.REQUEST_FINISHED, {}, "a"),
        (v.PREFETCH_GATE, {v.MATCHED_DEVICE: 16, v.MATCHED_HOST: 0}, "a"),
        (v.PREFILL, prefill(16, 32), "a"),
    )
    assert tiers(found) == (16, 0, 0, 32 + 16)


def test_pages_are_tokens_of_the_engines_page_size() -> None:
    """Pages written and read, by the size that the engine told."""
    found = metered(
        (v.REQUEST_QUEUED, {v.PAGE_SIZE: 16}, "a"), (v.WRITE_STORE, {v.WRITTEN_TOKENS: 48}, "a", 4), (v.PREFETCH_TRANSFER, {v.DONE_TOKENS: 32}, "a", 2.5)
    )
    assert (found[v.M_PAGES, "write"], found[v.M_PAGES, "read"]) == (3, 2)
    assert (found[v.M_WRITE,], found[v.M_TRANSFER,]) == ((1, 4.0), (1, 2.5))


def test_each_object_has_one_result() -> None:
    """What is good, absent, short or failed with a code adds up to what was asked; bytes are those that moved."""
    found = metered(
        (v.STORE_EXIST, {v.OUTCOME: "ok", v.OBJECTS: 10, v.OBJECTS_OK: 4, v.OBJECTS_CODES: ["-1=1", "0=5"]}, "a", 1),
        (v.STORE_GET, {v.OUTCOME: "ok", v.OBJECTS: 8, v.OBJECTS_OK: 5, v.OBJECTS_CODES: ["-704=2"], v.BYTES: 5000}, "a", 2),
        (v.STORE_PUT, {v.OUTCOME: "failed", v.OBJECTS: 3}, "a", 3),
        (v.STORE_PUT, {v.OUTCOME: "ok", v.OBJECTS: 7}, "a", 3),
        (v.STORE_SETUP, {v.OUTCOME: "ok", v.CODE: 0}, None, 5),
        (v.BUFFER_REGISTER, {v.OUTCOME: "declined", v.CODE: -600}, None, 1),
    )
    results = {key[1:]: value for key, value in counted(found).items() if key[0] == v.M_OBJECTS}
    assert results == {
        ("exist", "ok"): 4, ("exist", "-1"): 1, ("exist", "absent"): 5,
        ("get", "ok"): 5, ("get", "-704"): 2, ("get", "short"): 1,
        ("put", "raised"): 3, ("setup", "ok"): 1, ("register_buffer", "-600"): 1,
    }  # fmt: skip
    assert found[v.M_BYTES, "read"] == 5000
    assert found[v.M_CALLS, "put"] == (2, 6.0)


def test_a_copy_lasts_until_it_is_acknowledged() -> None:
    """Nodes that began together are one copy; an acknowledgement of what was never seen to begin is none."""
    made = Meter()
    made.take(v.LOAD_BACK_START, {v.NODES: [1, 2]}, 10 * MS, 11 * MS, None)
    made.take(v.LOAD_BACK_START, {v.NODES: [3]}, 20 * MS, 21 * MS, None)
    made.take(v.LOAD_BACK_DONE, {v.NODES: [1, 2, 3, 9]}, 29 * MS, 30 * MS, None)
    assert number(made.series[v.M_LOAD_BACK, ()]) == (2, 30.0)
    assert made.memory.copies == {}


def test_what_a_span_says_of_now_replaces_what_was() -> None:
    """Occupancy and limit are the latest ones; evictions and reasons add up."""
    found = metered(
        (v.PREFETCH_ENQUEUE, {v.OCCUPIED: 64, v.CAPACITY_LIMIT: 100, v.REASON: "R05"}, "a"),
        (v.PREFETCH_ENQUEUE, {v.OCCUPIED: 16, v.CAPACITY_LIMIT: 100}, "b"),
        (v.PREFETCH_GATE, {v.REASON: "R05"}, "a"),
        (v.EVICT_DEVICE, {v.EVICT_FREED: 32, v.EVICT_LOST: 16}, None),
        (v.EVICT_DEVICE, {v.EVICT_FREED: 8, v.EVICT_LOST: 0}, None),
        (v.EVICT_HOST, {v.EVICT_FREED: 4}, None),
        (v.LEDGER, {v.WRITTEN: 10, v.DROPPED: 1, v.EXPORT_DROPPED: 2, v.POINTS_FAULTS: 3}, None),
        (v.LEDGER, {v.WRITTEN: 12, v.DROPPED: 1, v.EXPORT_DROPPED: 2, v.POINTS_FAULTS: 3}, None),
    )
    assert (found[v.M_OCCUPIED,], found[v.M_LIMIT,]) == (16, 100)
    assert (found[v.M_EVICTED, "device"], found[v.M_EVICTED, "host"], found[v.M_UNBACKED,]) == (40, 4, 16)
    assert found[v.M_SKIPS, v.PREFETCH_GATE, "R05"] == 1
    assert [found[v.M_SPANS, fate] for fate in ("written", "dropped", "unsent")] == [12, 1, 2]
    assert found[v.M_FAULTS,] == 3


def test_series_and_memory_are_bounded() -> None:
    """Beyond the bound a metric has one series more, and the oldest request is forgotten."""
    made = Meter()
    for index in range(meter.MOST_SERIES + 50):
        made.take(v.WRITE_BACKUP, {v.REASON: f"R{index}"}, 0, 0, None)
    assert len(made.series) == meter.MOST_SERIES + 1
    assert made.series[v.M_SKIPS, (meter.OVERFLOW,)] == 50 + len(ZEROES)
    assert meter.named(v.M_SKIPS, (meter.OVERFLOW,)) == {meter.OVERFLOW: "true"}
    for index in range(MOST_WAITING + 5):
        made.take(v.PREFETCH_GATE, {v.MATCHED_DEVICE: 1}, 0, 0, f"r{index}")
        made.take(v.LOAD_BACK_START, {v.NODES: [index]}, 0, 0, None)
    assert len(made.memory.waiting) == MOST_WAITING == len(made.memory.copies)
    assert "r0" not in made.memory.waiting


def test_what_can_be_named_beforehand_is_there_at_nothing() -> None:
    """A rate needs a value before the first event; each key has its metric's attributes."""
    series = Meter().series
    assert set(series) == set(ZEROES)
    assert counted({(metric, *values): number(told) for (metric, values), told in series.items()}) == {}
    assert all(len(values) == len(v.METRICS[metric][4]) for metric, values in ZEROES)


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    """As Prometheus' `le` has it, and OpenTelemetry's explicit bounds."""
    one = Histogram()
    for amount in (0.0, v.BUCKETS[0], v.BUCKETS[0] + 1e-9, v.BUCKETS[-1] + 1):
        one.add(amount)
    assert (one.counts[0], one.counts[1], one.counts[-1]) == (2, 1, 1)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.metric} {row.spans[0]}")
def test_a_row_takes_what_its_spans_have(row: Any) -> None:
    """Its metric and spans are declared, and a span that tells nothing is no fault."""
    assert row.metric in v.METRICS
    assert set(row.spans) <= v.SPANS.keys()
    made = Meter()
    for span in row.spans:
        made.take(span, {}, 0, 0, None)
    assert row.absolute == (v.METRICS[row.metric][0] == v.GAUGE or row.metric in (v.M_SPANS, v.M_FAULTS))


def test_metrics_are_declared_and_taken_from_somewhere() -> None:
    """Each has a kind, a meaning and attributes that are explained; each that needs no diagnosis has a row."""
    for kind, unit, meaning, ranks, attributes in v.METRICS.values():
        assert kind in (v.COUNTER, v.GAUGE, v.HISTOGRAM)
        assert ranks in (v.ADDS, v.SAME, v.WHOLE)
        assert meaning
        assert unit == "s" or kind != v.HISTOGRAM
        assert set(attributes) <= v.DIMENSIONS.keys()
    assert {row.metric for row in ROWS} == v.METRICS.keys() - set(v.BY_DIAGNOSIS)
    assert {key for *_, attributes in v.METRICS.values() for key in attributes} == v.DIMENSIONS.keys()


def test_what_is_sent_is_what_protobuf_reads() -> None:
    """OTLP/JSON by protobuf's own reader, and the wire format by hand, are the same request; every kind of metric is in it."""
    metrics_service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    made = Meter()
    for amount in (0.0004, 0.02, 99.0):
        made.add(v.M_LOOKUP, (), amount)
    made.add(v.M_BYTES, (v.WRITE,), 1 << 40)
    made.add(v.M_OCCUPIED, (), 7, absolute=True)
    text, points = meter.line(made, encode.attribute(v.R_SERVICE, "sglang"), '{"name":"s","version":"1"}', 5, 1_764_000_000_000_000_000)
    assert points == len(ZEROES) + 1
    expected = json_format.Parse(text, metrics_service.ExportMetricsServiceRequest())
    assert metrics_service.ExportMetricsServiceRequest.FromString(wire.request(text)) == expected
    (scope,) = expected.resource_metrics[0].scope_metrics
    by_name = {metric.name: metric for metric in scope.metrics}
    assert by_name[v.M_BYTES].sum.is_monotonic
    assert by_name[v.M_BYTES].sum.aggregation_temporality == 2
    assert by_name[v.M_BYTES].unit == "By"
    (point,) = by_name[v.M_LOOKUP].histogram.data_points
    assert (point.count, sum(point.bucket_counts), point.sum) == (3, 3, pytest.approx(99.0204))
    assert list(point.explicit_bounds) == list(v.BUCKETS)
    assert by_name[v.M_OCCUPIED].gauge.data_points[0].as_int == 7


class Detail(Late):
    """Detail that tells how often it was worked out."""

    asked = 0

    def pairs(self) -> list[tuple[str, Any]]:
        """What a batch of objects tells."""
        Detail.asked += 1
        return [(v.OBJECTS, 5), (v.OBJECTS_OK, 4), (v.OBJECTS_CODES, ["-704=1"]), (v.BYTES, 400)]


def test_detail_is_worked_out_once_for_the_file_and_the_metrics() -> None:
    """The meter takes what the encoder has made of it, and a record of nonsense is a fault that costs no other record."""
    shapes = {"get": encode.Shape(v.STORE_GET, (v.OUTCOME, v.OBJECTS, v.LATE)), "loaded": encode.Shape(v.LOAD_BACK_DONE, (v.NODES,))}
    encoder = encode.Encoder(shapes, lambda point, fault: None, lambda late: None)
    encoder.details = {}
    records: list[Record] = [
        ("loaded", 0, 1, 1, 0, None, (1, "t"), (7,), None),
        ("get", 0, MS, 2, 0, "a", (1, "t"), ("ok", 5, Detail(1)), None),
        ("unknown", 0, 1, 3, 0, None, (1, "t"), (), None),
    ]
    Detail.asked = 0
    assert len(encoder.spans_of(records[:2])) == 2
    metrics = Metrics(Collector("http://h", signal="metrics"), 60)
    faults = list(metrics.take(records, shapes, encoder.details))
    assert [type(fault) for fault in faults] == [TypeError]
    assert Detail.asked == 1
    assert metrics.meter.series[v.M_BYTES, (v.READ,)] == 400
    assert metrics.meter.series[v.M_OBJECTS, ("get", "-704")] == 1


def test_a_line_holds_names_and_numbers_only() -> None:
    """No request id, key or text of a user is an attribute of a metric."""
    made = Meter()
    made.take(v.PREFETCH_GATE, {v.MATCHED_DEVICE: 16, v.MATCHED_HOST: 0, v.REASON: "R04"}, 0, 1, "secret request")
    made.take(v.PREFILL, prefill(16, 32), 0, 1, "secret request")
    text, _ = meter.line(made, "", "{}", 0, 1)
    assert "secret" not in text.decode()
    assert json.loads(text)["resourceMetrics"]
