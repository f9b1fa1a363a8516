"""Adds up what the rows take from the spans of one process: bounded, and told as one export request of OTLP/JSON."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracers import vocabulary as v
from tracers.metrics import NOTES, ROWS, ZEROES, Memory, Row, Sight

MOST_SERIES = 1000
"""Different combinations of metric and attribute values in one process; what comes beyond goes to one more of its metric."""
OVERFLOW = "otel.metric.overflow"
"""Attribute that stands in the place of all others there (OpenTelemetry SDK specification, cardinality limits)."""

Values = tuple[str, ...]
"""Values of a metric's attributes, in their order; `(OVERFLOW,)` beyond the bound."""


@dataclass(slots=True)
class Histogram:
    """How many amounts lay in which bucket; each bound belongs to the bucket below it."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(v.BUCKETS) + 1))
    sum: float = 0.0

    def add(self, amount: float) -> None:
        """Count one amount."""
        self.counts[bisect_left(v.BUCKETS, amount)] += 1
        self.sum += amount


def nothing(metric: str) -> "float | Histogram":
    """What a series of METRIC begins with."""
    return Histogram() if v.METRICS[metric][0] == v.HISTOGRAM else 0


class Meter:
    """The series of one process, fed span by span by one thread."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in ROWS:
            for span in row.spans:
                self._rows.setdefault(span, []).append(row)
        self.wanted = frozenset({*self._rows, *NOTES})
        """Spans that the meter looks at."""
        self.renew()

    def renew(self) -> None:
        """Start at nothing, as in a forked child."""
        self.memory = Memory()
        self.series: dict[tuple[str, Values], float | Histogram] = {key: nothing(key[0]) for key in ZEROES}

    def take(self, span: str, told: Mapping[str, Any], start_ns: int, end_ns: int, rid: str | None) -> None:
        """Take one span into account: its name, attributes, times, and the request that it serves."""
        sight = Sight(told, start_ns, end_ns, rid, self.memory)
        for row in self._rows.get(span, ()):
            for amount, values in row.read(sight):
                self.add(row.metric, values, amount, absolute=row.absolute)
        note = NOTES.get(span)
        if note is not None:
            note(sight)

    def add(self, metric: str, values: Values, amount: float, *, absolute: bool = False) -> None:
        """Add AMOUNT to a series, or let it replace what is there."""
        key = (metric, values)
        now = self.series.get(key)
        if now is None:
            if len(self.series) >= MOST_SERIES:
                key = (metric, (OVERFLOW,))
            now = self.series.get(key)
            if now is None:
                now = self.series[key] = nothing(metric)
        if isinstance(now, Histogram):
            now.add(amount)
        else:
            self.series[key] = amount if absolute else now + amount


def named(metric: str, values: Values) -> dict[str, str]:
    """The attributes of a series by their keys."""
    if values == (OVERFLOW,):
        return {OVERFLOW: "true"}
    return dict(zip(v.METRICS[metric][4], values, strict=True))


def line(meter: Meter, resource: str, scope: str, start_ns: int, now_ns: int) -> tuple[bytes, int]:
    """Everything so far as one export request of OTLP/JSON, cumulative since START_NS, and how many data points it has.

    RESOURCE and SCOPE are texts as the writer's lines have them. Source of the form: opentelemetry-proto `metrics/v1/metrics.proto`.
    """
    points: dict[str, list[dict[str, Any]]] = {}
    for (metric, values), told in meter.series.items():
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in named(metric, values).items()]
        times = {"attributes": attributes, "startTimeUnixNano": str(start_ns), "timeUnixNano": str(now_ns)}
        points.setdefault(metric, []).append({**times, **_amount(told)})
    metrics = json.dumps([_metric(name, some) for name, some in points.items()], separators=(",", ":"))
    text = f'{{"resourceMetrics":[{{"resource":{{"attributes":[{resource}]}},"scopeMetrics":[{{"scope":{scope},"metrics":{metrics}}}]}}]}}\n'
    return text.encode("ascii"), len(meter.series)


def _amount(told: float | Histogram) -> dict[str, Any]:
    if not isinstance(told, Histogram):
        return {"asInt": str(int(told))}
    counts = [str(count) for count in told.counts]
    return {"count": str(sum(told.counts)), "sum": told.sum, "bucketCounts": counts, "explicitBounds": list(v.BUCKETS)}


def _metric(name: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    kind, unit, meaning, _, _ = v.METRICS[name]
    cumulative = {"dataPoints": points, "aggregationTemporality": 2}
    data = {
        v.COUNTER: ("sum", {**cumulative, "isMonotonic": True}),
        v.HISTOGRAM: ("histogram", cumulative),
        v.GAUGE: ("gauge", {"dataPoints": points}),
    }[kind]
    return {"name": name, "description": meaning, "unit": unit, data[0]: data[1]}
