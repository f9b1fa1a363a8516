"""A real collector: what the tracers send while a process runs, and what `export` sends afterwards, arrives as the file has it."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import collecting
import engines
import invoke
import pytest
import verdicts
from installed import needs

from tracers import vocabulary as v

pytestmark = pytest.mark.real

PROTOCOLS = ("grpc", "http/protobuf", "http/json")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_span_arrives_as_the_file_has_it(protocol: str, tmp_path: Path) -> None:
    """Ids, names, times, attributes and resource, span by span, and nothing else arrives."""
    if protocol == "grpc":
        needs("grpc")
    with collecting.collector(tmp_path) as there:
        url = there.grpc if protocol == "grpc" else there.http
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        done = collecting.work(tmp_path / "run", env, (3000, 0.5), (3, 0.1))
        written = {id_: collecting.plain(span) for id_, span in done.spans().items()}
        arrived = there.spans(len(written))
    if protocol == "http/json":
        # This collector reads a decimal fraction to within its last binary digit.
        written, arrived = rounded(written), rounded(arrived)
    assert len(written) > 3003
    assert arrived == written
    assert done.ledger()["export"] == {"sent": len(written), "dropped": 0, "waiting": 0}


def rounded(value: Any) -> Any:
    """VALUE with its floating point numbers to 14 digits."""
    if isinstance(value, float):
        return float(f"{value:.14g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return type(value)(map(rounded, value)) if isinstance(value, (list, tuple)) else value


# This collector, alpha, hands on metrics that came as http/json without their data points; protobuf's own reader finds them (test_metrics_sent.py).
@pytest.mark.parametrize("protocol", [protocol for protocol in PROTOCOLS if protocol != "http/json"])
def test_metrics_pass_the_collector(protocol: str, tmp_path: Path) -> None:
    """What a process counts is handed on: sums, histograms and the resource that names its process and rank."""
    if protocol == "grpc":
        needs("grpc")
    with collecting.collector(tmp_path) as there:
        url = there.grpc if protocol == "grpc" else there.http
        done = collecting.work(tmp_path / "run", {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}, (700, 0.5))
        found = there.metrics(lambda series: (v.M_CALLS, 0, "put") in series)
    assert found[v.M_CALLS, 0, "put"][0] == 700
    assert 0 < found[v.M_CALLS, 0, "put"][1] < 1
    assert 700 < found[v.M_SPANS, 0, "written"] <= done.ledger()["written"]
    assert found[v.M_SPANS, 0, "dropped"] == 0


def test_a_collector_that_is_held_for_a_while_misses_nothing(tmp_path: Path) -> None:
    """A real collector that is stopped by a signal takes connections and answers none; when it goes on it gets what it missed."""
    with collecting.collector(tmp_path) as there:
        hold = threading.Timer(2.0, os.kill, (there.pid, signal.SIGSTOP))
        go_on = threading.Timer(4.0, os.kill, (there.pid, signal.SIGCONT))
        hold.start()
        go_on.start()
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": there.http, "OTEL_METRICS_EXPORTER": "none"}
        done = collecting.work(tmp_path / "run", env, *[(200, 0.4)] * 20)
        go_on.join()
        written = {id_: collecting.plain(span) for id_, span in done.spans().items()}
        arrived = there.spans(len(written))
    assert arrived == written
    assert done.ledger()["export"] == {"sent": len(written), "dropped": 0, "waiting": 0}


def without_runs(document: dict[str, Any]) -> dict[str, Any]:
    """A verdict without the name of what was read."""
    return {key: value for key, value in document.items() if key != "runs"}


@pytest.mark.parametrize(("version", "scheme"), [("0.5.14", "http"), ("0.5.23", "grpc")])
def test_a_recording_sent_afterwards_explains_the_same(version: str, scheme: str, tmp_path: Path) -> None:
    """A recording of the real engine, sent by `export` and read back from what the collector handed on."""
    if scheme == "grpc":
        needs("grpc")
    run = Path(__file__).parents[1] / "samples" / "versions" / version
    with collecting.collector(tmp_path) as there:
        target = there.http if scheme == "http" else there.grpc.replace("http://", "grpc://")
        done = invoke.hicachectl("export", str(run), "--to", "otlp", "--target", target)
        assert done.returncode == 0, done.stderr
        there.spans(len(list(run.glob("ledger-*"))) + sum(path.read_bytes().count(b'"spanId"') for path in run.glob("spans-*")))
        back = there.write(tmp_path / "back.jsonl")
    assert without_runs(verdicts.explained(back)) == without_runs(verdicts.explained(run))


def test_an_engine_that_sends_while_it_runs_explains_the_same(tmp_path: Path) -> None:
    """`trace --otlp`: a real engine, killed schedulers and samples of the master included."""
    needs("sglang", "mooncake")
    run, prompt = tmp_path / "run", engines.tokens(597)
    plan = [engines.generate(prompt, rid="cold"), engines.written(74), engines.flush(), engines.generate(prompt, rid="stored"), engines.wait(3)]
    with collecting.collector(tmp_path) as there:
        often = {"OTEL_METRIC_EXPORT_INTERVAL": "500"}
        engines.play(plan, before=("trace", "--run", str(run), "--otlp", there.http, "--"), env=often)
        ledgers = [json.loads(path.read_bytes()) for path in run.glob("ledger-*.json")]
        sent = sum(ledger["export"]["sent"] for ledger in ledgers if ledger.get("export"))
        written = sum(ledger["written"] for ledger in ledgers)
        there.spans(written)
        back = there.write(tmp_path / "back.jsonl")
        metrics = there.metrics(lambda series: series.get((v.M_TOKENS, 0, "storage"), 0) > 0)
    here, from_there = verdicts.explained(run), verdicts.explained(back)
    assert sent > 0
    tokens = {tier: sum(row["tokens"]["reused"][tier] for row in here["requests"]) for tier in ("device", "host", "storage")}
    assert {tier: metrics[v.M_TOKENS, 0, tier] for tier in tokens} == tokens
    assert metrics[v.M_REQUESTS, 0] == len(here["requests"]) == 2
    assert metrics[v.M_PAGES, 0, "read"] == 37
    # The engine's own warm-up reads one more.
    assert metrics[v.M_OBJECTS, 0, "get", "ok"] == 74 + 1
    assert metrics[v.M_TRANSFER, 0][0] == 1
    assert metrics[v.M_LOAD_BACK, 0][0] >= 1
    assert here["complete"], here["incomplete"]
    assert verdicts.request(here, "stored")["tokens"]["reused"]["storage"] == 592
    assert without_runs(from_there) == without_runs(here)
