"""What `trace --metrics-port` serves: series of every rank, losses that only grow, and names that Prometheus takes."""

import importlib.util
import re
import sys
import urllib.request
from pathlib import Path

import pytest
from collecting import series as sent_series
from recordings import Recording
from stories import Story

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.recorder import scrape
from hicachectl.recorder.findings import Findings
from hicachectl.recorder.metrics import MOST_ENGINES, Metrics, Series
from hicachectl.recorder.scrape import Endpoint, place, prometheus_name
from hicachectl.store import Tail
from tracers import meter
from tracers import vocabulary as v
from tracers.meter import Histogram, Meter

parser = pytest.importorskip("prometheus_client.parser")


def fed(made: Recording, folder: Path) -> Metrics:
    """The metrics of a recording that was read by a tail."""
    made.write(folder)
    tail, metrics = Tail(folder), Metrics(folder)
    metrics.add(tail.look(), tail.resources)
    return metrics


def scraped(metrics: Metrics, accept: str = "text/plain") -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """What Prometheus' own parser reads of an answer: sample name -> labels -> value."""
    endpoint = scrape.opened("0")
    endpoint.serve(metrics.series)
    try:
        request = urllib.request.Request(endpoint.url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
    finally:
        endpoint.close()
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_each_rank_has_series_of_its_own(tmp_path: Path) -> None:
    """Tokens are the same on every rank and bytes are not: both stand under the rank that told them."""
    made = Recording()
    for rank in (0, 1):
        engine = made.engine(pid=100 + rank, tp_rank=rank)
        engine.span(v.PREFILL, 1, rid="a", attributes={v.PREFIX_TOKENS: 0, v.PROMPT_TOKENS: 40, v.FIRST_CHUNK: True})
        engine.span(v.STORE_PUT, 2, 4, attributes={v.OBJECTS: 2, v.OBJECTS_OK: 2, v.BYTES: 100 + rank})
    made.engine(pid=7, scheduler=False, resource={v.R_TP_RANK: None}).span(v.WARMUP, 1)
    found = scraped(fed(made, tmp_path))
    requests = {dict(labels)["hicachectl_tp_rank"]: value for labels, value in found["hicache_requests_total"].items()}
    moved = {dict(labels)["hicachectl_tp_rank"]: value for labels, value in found["mooncake_io_bytes_total"].items() if ("hicache_direction", "write") in labels}
    assert requests == {"0": 1, "1": 1}
    assert moved == {"0": 100, "1": 101}
    (labels,) = (dict(one) for one in found["hicache_requests_total"] if dict(one)["hicachectl_tp_rank"] == "1")
    assert labels == {"hicachectl_engine_id": made.engines[1].id, "host_name": "host-a", "hicachectl_tp_rank": "1", "hicachectl_pp_rank": "0"}
    assert not any(made.engines[2].id in dict(labels).values() for samples in found.values() for labels in samples)


def test_a_histogram_adds_up_to_its_count(tmp_path: Path) -> None:
    """Buckets are cumulative up to +Inf, and the sum is in seconds."""
    made = Recording()
    engine = made.engine()
    for at, took in ((0, 0.4), (10, 20), (100, 40_000)):
        engine.span(v.PREFETCH_TRANSFER, at, at + took, rid="a", attributes={v.DONE_TOKENS: 16})
    found = scraped(fed(made, tmp_path))
    buckets = {dict(labels)["le"]: value for labels, value in found["hicache_transfer_duration_seconds_bucket"].items()}
    assert (buckets["0.0005"], buckets["0.025"], buckets["30.0"], buckets["+Inf"]) == (1, 2, 2, 3)
    assert list(found["hicache_transfer_duration_seconds_count"].values()) == [3]
    assert list(found["hicache_transfer_duration_seconds_sum"].values()) == [pytest.approx(40.0204)]


def test_what_became_of_spans_is_read_from_the_ledgers_files(tmp_path: Path) -> None:
    """The span that repeats a ledger comes seldom; a file that is gone leaves what was known."""
    made = Recording()
    engine = made.engine().ledger(dropped=3, export={"sent": 5, "dropped": 2, "waiting": 0})
    engine.span(v.PREFILL, 1, rid="a")
    metrics = fed(made, tmp_path)
    fates = {dict(labels)["hicachectl_fate"]: value for labels, value in scraped(metrics)["hicachectl_spans_total"].items()}
    assert fates == {"written": 1, "dropped": 3, "unsent": 2}
    for path in tmp_path.iterdir():
        path.unlink()
    tmp_path.rmdir()
    assert scraped(metrics)["hicachectl_spans_total"]


def losing(folder: Path, finished: bool) -> Path:
    """A recording in which request b computes what a has written."""
    story = Story()
    story.engine().request("a", pages=8).request("b", pages=8, prompt="a", hit=8, done=0, transfer_error="OSError", publish=False)
    if not finished:
        spans = story.recording.engines[0].spans
        spans[:] = [span for span in spans if not (span.document["name"] == v.REQUEST_FINISHED and "b" in str(span.document["attributes"]))]
    return story.recording.write(folder)


def test_losses_are_counted_by_code_once_the_request_has_finished(tmp_path: Path) -> None:
    """A request that still runs may come to another code; a second look at the same recording adds nothing."""
    for finished, tokens in ((False, 0), (True, 128)):
        folder = losing(tmp_path / str(finished), finished)
        findings, metrics, tail = Findings(folder), Metrics(folder), Tail(folder)
        spans = tail.look()
        metrics.add(spans, tail.resources)
        for again in (0, 1):
            findings.finish(len(spans) + again)
        metrics.judge(findings, len(spans))
        found = scraped(metrics)
        assert sum(found.get("hicache_lost_tokens_total", {}).values()) == tokens
        assert list(found["hicachectl_judged"].values()) == [1]
    ((labels, _),) = found["hicache_lost_tokens_total"].items()
    assert dict(labels)["hicachectl_code"].startswith("HC-R")
    assert dict(labels)["hicachectl_tp_rank"] == "0"
    assert sum(found["hicachectl_findings"].values()) >= 1


def test_a_recording_that_is_too_long_to_be_judged_says_so(tmp_path: Path) -> None:
    """Losses stay as they were; nobody takes them for all of them."""
    folder = losing(tmp_path, True)
    findings, metrics = Findings(folder), Metrics(folder)
    findings.finish(10)
    metrics.judge(findings, 10_000_000)
    found = scraped(metrics)
    assert list(found["hicachectl_judged"].values()) == [0]
    assert sum(found["hicache_lost_tokens_total"].values()) == 128
    assert "hicachectl_findings" not in found


def test_the_metrics_of_both_ways_are_the_same_numbers(tmp_path: Path) -> None:
    """What an engine would send of the spans that the file holds is what is served of the file."""
    metrics_service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    story = Story()
    story.engine().request("a", pages=8).request("b", pages=8, prompt="a", hit=8).request("c", pages=4, device=2)
    metrics = fed(story.recording, tmp_path)
    engine = Meter()
    for span in Tail(tmp_path).look():
        engine.take(span.name, span.attributes, span.start_ns, span.end_ns, str(span.attributes[v.RID]) if v.RID in span.attributes else None)
    text, _ = meter.line(engine, "", "{}", 0, 1)
    sent = sent_series(json_format.Parse(text, metrics_service.ExportMetricsServiceRequest()))
    served = {(one.metric, None, *(value for key, value in one.attributes.items() if key in v.DIMENSIONS)): one.told for one in metrics.series()}
    plain = {key: (sum(told.counts), told.sum) if isinstance(told, Histogram) else told for key, told in served.items() if key[0] != v.M_SPANS}
    assert len(plain) > 15
    assert plain == {key: told for key, told in sent.items() if key[0] != v.M_SPANS}


def test_names_and_labels_are_those_that_prometheus_takes() -> None:
    """Unit and `_total` behind the name, and every metric is in an answer, series or none."""
    assert prometheus_name(v.M_BYTES) == "mooncake_io_bytes_total"
    assert prometheus_name(v.M_LOAD_BACK) == "hicache_load_back_duration_seconds"
    assert prometheus_name(v.M_OCCUPIED) == "hicache_prefetch_usage"
    names = [prometheus_name(metric) for metric in v.METRICS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z_]*", name) for name in names)


def test_openmetrics_is_spoken_where_it_is_asked_for(tmp_path: Path) -> None:
    """Prometheus asks for it; its parser is stricter."""
    strict = pytest.importorskip("prometheus_client.openmetrics.parser")
    made = Recording()
    made.engine().span(v.PREFETCH_TRANSFER, 1, 2, rid="a", attributes={v.DONE_TOKENS: 16})
    endpoint = scrape.opened("127.0.0.1:0")
    endpoint.serve(fed(made, tmp_path).series)
    try:
        request = urllib.request.Request(endpoint.url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert "openmetrics" in answer.headers["content-type"]
            families = {family.name: family for family in strict.text_string_to_metric_families(answer.read().decode())}
    finally:
        endpoint.close()
    assert families["hicache_transfer_duration_seconds"].samples
    assert families["hicache_lost_tokens"].type == "counter"


def test_beyond_the_bound_the_oldest_engine_is_forgotten(tmp_path: Path) -> None:
    """A command that restarts its engine for ever does not fill memory, and what is served does not grow."""
    made = Recording()
    for pid in range(MOST_ENGINES + 3):
        made.engine(pid=1000 + pid).span(v.PREFILL, pid, rid="a")
    engines = {one.attributes[v.R_ENGINE] for one in fed(made, tmp_path).series() if v.R_ENGINE in one.attributes}
    assert len(engines) == MOST_ENGINES
    assert made.engines[0].id not in engines
    assert made.engines[-1].id in engines


def test_a_series_beyond_the_meters_bound_has_the_same_labels() -> None:
    """Prometheus wants one set of labels for each metric."""
    endpoint = scrape.opened("0")
    endpoint.serve(lambda: [Series(v.M_SKIPS, {v.D_STEP: meter.OVERFLOW, v.D_REASON: meter.OVERFLOW}, 1)])
    try:
        with urllib.request.urlopen(endpoint.url, timeout=10) as answer:
            assert 'hicache_skip_reason="otel.metric.overflow"' in answer.read().decode()
    finally:
        endpoint.close()


@pytest.mark.parametrize(("told", "expected"), [("9400", ("127.0.0.1", 9400)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:2", ("::1", 2)), (":3", ("127.0.0.1", 3))])
def test_a_port_alone_is_on_the_loopback(told: str, expected: tuple[str, int]) -> None:
    """Nobody opens a port to the network without saying so."""
    assert place(told) == expected


@pytest.mark.parametrize("told", ["", "x", "1:x", "70000", "-1", "http://h:1"])
def test_a_port_that_is_none_is_a_matter_of_usage(told: str) -> None:
    """Said before anything starts."""
    with pytest.raises(UsageError, match="--metrics-port"):
        place(told)


def test_a_port_that_is_taken_is_said() -> None:
    """Whoever holds it stays undisturbed."""
    held = scrape.opened("0")
    port = held.url.rpartition(":")[2].partition("/")[0]
    with pytest.raises(UnreachableError, match="in use"):
        scrape.opened(port)
    held.close()


def test_without_the_package_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: SGLang brings it along, a bare machine does not."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UnreachableError, match=r"hicachectl\[metrics\]"):
        scrape.opened("0")


def test_the_endpoint_is_loaded_by_who_asks_for_it() -> None:
    """The package is found, and what is returned is a port that was bound and answers nobody yet."""
    assert importlib.util.find_spec("prometheus_client") is not None
    endpoint = scrape.opened("0")
    assert isinstance(endpoint, Endpoint)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", endpoint.url)
    endpoint.close()
