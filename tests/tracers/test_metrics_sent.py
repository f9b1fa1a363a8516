"""Metrics of a process on their way to a collector: sent now and then and at the end, and in nobody's way."""

from pathlib import Path
from typing import Any

import pytest
from collecting import Receiver, listener, receiver, series, unused, work

from tracers import otlp, settings
from tracers import vocabulary as v
from tracers.otlp_metrics import Metrics
from tracers.settings import GRPC, JSON, PROTOBUF, Collector

SOON = 3.0
"""Seconds in which a process has ended that may take one, on a machine that has other things to do; a request's time-out is 10."""


def sending(url: str, protocol: str = PROTOBUF, interval_ms: int = 200, **more: str) -> dict[str, str]:
    """Variables that name a collector for metrics alone."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_METRIC_EXPORT_INTERVAL": str(interval_ms),
        **more,
    }


def counted(there: Receiver) -> list[dict[tuple[Any, ...], Any]]:
    """The series of each request that arrived."""
    return [series(request) for request in there.measured()]


@pytest.mark.parametrize("protocol", [PROTOBUF, JSON])
def test_what_is_sent_counts_what_the_file_has(protocol: str, tmp_path: Path) -> None:
    """Requests come while it runs, each counts from the start, and the last one has every span of the file but those that are told after it."""
    with receiver(answer=(200, "application/x-protobuf", b"")) as there:
        # An idle writer looks about once a second whether it is time.
        done = work(tmp_path / "run", sending(there.url, protocol), (300, 2.5), (400, 1.6), (5, 0.0))
    found = counted(there)
    puts = [each[v.M_CALLS, 0, "put"][0] for each in found]
    assert puts == sorted(puts)
    assert puts[0] < puts[-1] == 705
    assert 705 < found[-1][v.M_SPANS, 0, "written"] <= done.ledger()["written"] == len(done.spans())
    assert found[-1][v.M_SPANS, 0, "dropped"] == 0
    assert {told["path"] for _, told in there.metrics} == {"/v1/metrics"}
    assert there.bodies == []
    assert done.told == ""


def test_a_resource_names_process_and_rank(tmp_path: Path) -> None:
    """What spans have, and an instance of its own for each process, whose points would else be taken for one another's."""
    with receiver(answer=(200, "application/x-protobuf", b"")) as there:
        done = work(tmp_path / "run", sending(there.url, OTEL_SERVICE_NAME="mine"), (5, 0.1))
    (group,) = there.measured()[-1].resource_metrics
    told = {pair.key: pair.value for pair in group.resource.attributes}
    assert told[v.R_ENGINE].string_value == told[v.R_INSTANCE].string_value == done.ledger()["engine"]
    assert told[v.R_TP_RANK].int_value == 0
    assert told["service.name"].string_value == "mine"
    (point,) = (metric.histogram.data_points[0] for metric in group.scope_metrics[0].metrics if metric.name == v.M_CALLS)
    assert point.start_time_unix_nano == done.ledger()["start_ms"] * 1_000_000 < point.time_unix_nano


def test_an_instance_that_the_user_names_stays(tmp_path: Path) -> None:
    """OTEL_RESOURCE_ATTRIBUTES says what an instance is, where it does."""
    with receiver(answer=(200, "application/x-protobuf", b"")) as there:
        work(tmp_path / "run", sending(there.url, OTEL_RESOURCE_ATTRIBUTES="service.instance.id=pod-7"), (5, 0.1))
    (group,) = there.measured()[-1].resource_metrics
    assert [pair.value.string_value for pair in group.resource.attributes if pair.key == v.R_INSTANCE] == ["pod-7"]


@pytest.mark.parametrize("protocol", [PROTOBUF, GRPC])
def test_a_collector_that_hangs_keeps_nobody(protocol: str, tmp_path: Path) -> None:
    """The file is complete and the process ends; of all that was to be sent the latest alone waits."""
    if protocol == GRPC:
        pytest.importorskip("grpc")
    with listener(lambda connection: None) as place:
        done = work(tmp_path / "run", sending(f"http://{place}", protocol, 100), (30_000, 0.3))
    without = work(tmp_path / "without", {}, (30_000, 0.3))
    assert len(done.spans()) == done.ledger()["written"] > 30_000
    assert done.ledger()["dropped"] == 0
    assert done.end_s < SOON
    # Importing grpcio takes some 20 MB by itself.
    assert done.peak_kb - without.peak_kb < (45_000 if protocol == GRPC else 20_000)


@pytest.mark.parametrize(
    ("answer", "why"), [((404, "text/plain", b"no"), "HTTP 404"), ((200, "text/html", b"<p>"), "no collector"), (None, "Connection refused")], ids=lambda told: str(told)[:12]
)
def test_a_refusal_is_said_once_and_hurts_nobody(answer: tuple[int, str, bytes] | None, why: str, tmp_path: Path) -> None:
    """A collector that takes spans alone, something else altogether, or nobody: one warning that speaks of metrics."""
    if answer is None:
        done = work(tmp_path / "run", sending(f"http://{unused()}", interval_ms=100), (10, 0.4), (10, 0.4))
    else:
        with receiver(answer=answer) as there:
            done = work(tmp_path / "run", sending(there.url, interval_ms=100), (10, 0.4), (10, 0.4))
    assert len(done.spans()) == done.ledger()["written"] > 20
    assert done.told.count("metrics do not reach the collector") == 1
    assert done.told.count(why) == 1
    assert "the file has them" not in done.told
    assert done.end_s < SOON


def test_spans_do_not_wait_for_metrics_nor_metrics_for_spans(tmp_path: Path) -> None:
    """Each has a connection and a thread: where the one's endpoint hangs, the other's gets all."""
    with listener(lambda connection: None) as hung, receiver() as there:
        spans_hang = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://{hung}", "OTEL_TRACES_EXPORTER": "otlp"}
        one = work(tmp_path / "one", sending(there.url, JSON, **spans_hang), (50, 0.5))
        assert counted(there)[-1][v.M_CALLS, 0, "put"][0] == 50
        metrics_hang = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"http://{hung}", "OTEL_TRACES_EXPORTER": "otlp"}
        other = work(tmp_path / "other", sending(there.url, JSON, **metrics_hang), (50, 0.5))
    assert one.ledger()["export"]["sent"] == 0
    assert other.ledger()["export"] == {"sent": other.ledger()["written"], "dropped": 0, "waiting": 0}


def test_a_process_without_a_scheduler_sends_none(tmp_path: Path) -> None:
    """A server's other processes have no cache of which metrics could tell."""
    with receiver() as there:
        work(tmp_path / "run", sending(there.url, JSON, 100), (10, 0.4), scheduler=False)
    assert there.metrics == []


@pytest.mark.parametrize(
    "env", [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_METRICS_EXPORTER": "prometheus,console"}], ids=lambda env: "".join(env.values()) or "-"
)
def test_where_none_are_to_be_sent_none_are_counted(env: dict[str, str], tmp_path: Path) -> None:
    """No endpoint, or switched off: nothing of it is imported."""
    done = work(tmp_path / "run", {**sending(f"http://{unused()}"), **env} if env else {}, (5, 0.1))
    assert done.modules == []
    assert len(done.spans()) > 5


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, Collector("http://h:4318/v1/metrics", signal="metrics")),
        ({"EXPORTER_OTLP_METRICS_ENDPOINT": "http://h/x", "EXPORTER_OTLP_METRICS_PROTOCOL": JSON}, Collector("http://h/x", JSON, signal="metrics")),
        ({"EXPORTER_OTLP_ENDPOINT": "http://h:4317", "EXPORTER_OTLP_PROTOCOL": "grpc"}, Collector("http://h:4317", GRPC, signal="metrics")),
        ({"EXPORTER_OTLP_ENDPOINT": "http://h", "METRICS_EXPORTER": "otlp"}, Collector("http://h/v1/metrics", signal="metrics")),
        ({"EXPORTER_OTLP_ENDPOINT": "http://h", "METRICS_EXPORTER": "none"}, None),
        ({"EXPORTER_OTLP_ENDPOINT": "http://h", "TRACES_SAMPLER": "always_off"}, Collector("http://h/v1/metrics", signal="metrics")),
        ({"EXPORTER_OTLP_TRACES_ENDPOINT": "http://h"}, None),
        (
            {"EXPORTER_OTLP_ENDPOINT": "http://h", "EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"},
            Collector("http://h/v1/metrics", signal="metrics", unheeded="delta"),
        ),
    ],
)
def test_variables_of_metrics_mean_what_opentelemetry_says(env: dict[str, str], expected: Collector | None) -> None:
    """Endpoint, protocol, exporter and temporality; a sampler is of traces and says nothing of metrics."""
    told = {f"OTEL_{name}": value for name, value in env.items()}
    assert settings.read({"HICACHECTL_TRACE": "/run", **told}).metrics == expected


@pytest.mark.parametrize(("told", "seconds"), [("", 60.0), ("5000", 5.0), ("1", 0.1), ("often", 60.0)])
def test_the_interval_is_in_milliseconds_and_has_a_floor(told: str, seconds: float) -> None:
    """OTEL_METRIC_EXPORT_INTERVAL, a minute by default."""
    assert settings.read({"HICACHECTL_TRACE": "/run", "OTEL_METRIC_EXPORT_INTERVAL": told}).interval_s == seconds


def test_of_what_waits_only_the_latest_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of metrics holds all that the lines before it held; what it replaces counts as dropped."""
    arrived: list[bytes] = []

    class Keeps(otlp.Sender):
        def send(self, line: bytes) -> int:
            arrived.append(line)
            return 0

    monkeypatch.setattr(otlp, "sender", lambda asked: Keeps())
    exporter = otlp.Exporter(Collector("http://h", signal="metrics"))
    exporter.offer(b"old", 3)
    exporter.offer(b"new", 4)
    exporter.start()
    exporter.settle()
    exporter.close()
    assert arrived == [b"new"]
    assert (exporter.counts.sent, exporter.counts.dropped, exporter.counts.waiting) == (4, 3, 0)


def test_a_forked_child_counts_from_nothing() -> None:
    """What the parent has counted is the parent's to tell."""
    metrics = Metrics(Collector("http://h", signal="metrics"), 60)
    metrics.meter.add(v.M_REQUESTS, (), 5)
    metrics.renew()
    assert metrics.meter.series[v.M_REQUESTS, ()] == 0
    assert not metrics.due(final=False)
    assert metrics.due(final=True)
