"""A real Prometheus server scrapes `trace --metrics-port` beside a real engine; the dashboard's queries find what the engine did."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engines
import invoke
import pytest
import verdicts
from installed import needs, program
from stories import Story

from tracers import vocabulary as v

pytestmark = pytest.mark.real

DASHBOARD = invoke.ROOT / "docs" / "grafana.json"
WINDOW = "10m"
"""Longer than a test takes."""


@dataclass
class Prometheus:
    """A server that scrapes, and what it answers."""

    url: str

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series that QUERY finds now; fails where Prometheus does not take the query."""
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as answer:
            told = json.loads(answer.read())
        assert told["status"] == "success", told
        return [(one["metric"], float(one["value"][1])) for one in told["data"]["result"]]

    def most(self, series: str) -> float:
        """The sum over the series of the most that each of them has come to."""
        return sum(value for _, value in self.ask(f"max_over_time({series}[{WINDOW}])"))

    def over_time(self, query: str, seconds: float) -> list[float]:
        """Every value that QUERY has had in the last SECONDS."""
        now = time.time()
        asked = urllib.parse.urlencode({"query": query, "start": now - seconds, "end": now, "step": "1"})
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{asked}", timeout=10) as answer:
            told = json.loads(answer.read())
        assert told["status"] == "success", told
        return [float(value) for one in told["data"]["result"] for _, value in one["values"]]


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """A server that scrapes TARGET as the example in the documentation has it, but each second; its data in FOLDER."""
    config = (invoke.ROOT / "docs" / "prometheus.yml").read_text()
    (folder / "prometheus.yml").write_text(config.replace("15s", "1s").replace("127.0.0.1:9400", target))
    place = unused()
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={place}"]
    with (folder / "prometheus.log").open("wb") as log:
        server = subprocess.Popen([program("prometheus"), *options], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not ready(f"http://{place}/-/ready"):
            assert server.poll() is None, (folder / "prometheus.log").read_text()[-2000:]
            assert time.monotonic() < until, "Prometheus does not become ready"
            time.sleep(0.2)
        yield Prometheus(f"http://{place}")
    finally:
        server.terminate()
        server.wait(20)


def ready(url: str) -> bool:
    """Whether a server answers at URL."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def unused() -> str:
    """A place on the loopback at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return "{}:{}".format(*server.getsockname())


def dashboard() -> list[tuple[str, str]]:
    """(title, query) of every target, with Grafana's variables filled in."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(panel["title"], target["expr"].replace("$__rate_interval", "10s").replace("$host", ".*")) for panel in panels for target in panel["targets"]]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, dict[str, Any], float]]:
    """Prometheus after an engine that wrote, reused, and lost what it could not find again; the recording's verdict; the seconds that it took."""
    needs("sglang", "mooncake", "prometheus_client")
    program("prometheus")
    folder, prompt, target = tmp_path_factory.mktemp("prometheus"), engines.tokens(597), unused()
    plan = [
        engines.wait(2),
        engines.generate(prompt, rid="cold"),
        engines.written(74),
        engines.flush(),
        engines.generate(prompt, rid="stored"),
        engines.flush(),
        engines.keys(),
        engines.wait(2),
        engines.generate(engines.tokens(300, seed=11), rid="other"),
        engines.wait(12),
    ]
    began = time.monotonic()
    with scraping(folder, target) as server:
        engines.play(plan, before=("trace", "--metrics-port", target, "--run", str(folder / "run"), "--"))
        yield server, verdicts.explained(folder / "run"), time.monotonic() - began


def test_prometheus_has_what_explain_says(scraped: tuple[Prometheus, dict[str, Any], float]) -> None:
    """Tokens by tier, requests and bytes are those of the recording."""
    server, found, _ = scraped
    tokens = {tier: sum(row["tokens"]["reused"][tier] for row in found["requests"]) for tier in ("device", "host", "storage")}
    tokens["computed"] = sum(row["tokens"]["computed"] for row in found["requests"])
    assert tokens["storage"] == 592
    for tier, expected in tokens.items():
        assert server.most(f'hicache_request_tokens_total{{hicache_tier="{tier}"}}') == expected, tier
    assert server.most("hicache_requests_total") == len(found["requests"]) == 3
    assert server.most('hicache_storage_pages_total{hicache_direction="read"}') == 37
    # The engine's own warm-up reads one more.
    assert server.most('mooncake_operation_objects_total{mooncake_operation="get",mooncake_result="ok"}') == 74 + 1
    assert server.most('mooncake_io_bytes_total{hicache_direction="read"}') > 0
    assert server.most("hicache_transfer_duration_seconds_count") == 1
    assert server.most("hicache_load_back_duration_seconds_count") >= 1
    assert server.most("hicache_load_back_duration_seconds_sum") > 0
    assert server.most("hicachectl_judged") == 1
    assert server.most('hicachectl_spans_total{hicachectl_fate="dropped"}') == 0
    ((labels, _),) = server.ask(f"max_over_time(hicache_requests_total[{WINDOW}])")
    assert (labels["hicachectl_tp_rank"], labels["hicachectl_pp_rank"]) == ("0", "0")
    assert labels["hicachectl_engine_id"] == found["engines"][0]["engine"]


def test_prometheus_takes_every_query_of_the_dashboard(scraped: tuple[Prometheus, dict[str, Any], float]) -> None:
    """Each is understood, and those of what the engine did have had values."""
    server, _, seconds = scraped
    had = {title: [] for title, _ in dashboard()}
    for title, query in dashboard():
        had[title] += server.over_time(query, seconds + 5)
    quiet = {title for title, values in had.items() if not values}
    # Nothing was lost or failed, so that those have no series.
    assert quiet <= {"Tokens lost so far, by code", "Objects that did not succeed so far", "Skips so far, by reason", "Findings"}
    assert max(had["Prompt tokens by tier"]) > 0
    assert max(value for value in had["Transfers"] if value == value) > 0
    assert had["Judged"][-1] == 1


PLAYER = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["HICACHECTL_TRACE"])
for pause, name, text in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    time.sleep(pause)
    with (folder / name).open("a") as file:
        file.write(text)
"""
"""A command that writes what engines would, in steps of (pause before, file, text)."""


def troubled() -> Story:
    """Two ranks that had every trouble of which the dashboard has a panel."""
    story = Story()
    for rank in (0, 1):
        engine = story.engine(tp_rank=rank, tp_size=2)
        engine.request("a", pages=8)
        engine.request("b", pages=8, prompt="a", hit=8)
        engine.request("c", pages=8, prompt="a", hit=8, done=0, transfer_error="OSError", publish=False)
        engine.request("d", pages=8, bad_put={3: -200})
        engine.request("e", pages=2, gate="R04")
        engine.span(v.EVICT_DEVICE, attributes={v.OUTCOME: "ok", v.EVICT_ASKED: 64, v.EVICT_FREED: 64, v.EVICT_LOST: 16})
        engine.span(v.LEDGER, attributes={v.WRITTEN: 1, v.DROPPED: 0, v.POINTS_FAULTS: 1})
        engine.made.ledger(dropped=1, written=100, export={"sent": 90, "dropped": 10, "waiting": 0})
    return story


def steps(story: Story, folder: Path) -> list[tuple[float, str, str]]:
    """What the player writes: each engine's first span and its ledger, then, when those have been scraped, the rest."""
    made = story.recording.engines
    for engine in made:
        names = [span.document["name"] for span in engine.spans]
        assert names.index(v.ENGINE_START) == 0
    begin = [(0.0, f"spans-{engine.host}-{engine.pid}-{engine.start_ms}.jsonl", engine.line(engine.spans[:1]) + "\n") for engine in made]
    begin += [(0.0, f"ledger-{engine.host}-{engine.pid}-{engine.start_ms}.json", json.dumps(engine.ledger_document())) for engine in made]
    rest = [(0.0, name, engine.line(engine.spans[1:]) + "\n") for engine, (_, name, _) in zip(made, begin, strict=False)]
    return [*begin, (6.0, rest[0][1], rest[0][2]), *rest[1:], (15.0, "end", "")]


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """Prometheus after `trace` beside the player."""
    needs("prometheus_client")
    program("prometheus")
    folder, target = tmp_path_factory.mktemp("trouble"), unused()
    (folder / "steps.json").write_text(json.dumps(steps(troubled(), folder)))
    (folder / "player.py").write_text(PLAYER)
    path = os.pathsep.join([invoke.environment()["PYTHONPATH"], str(invoke.plugin_site(folder / "site"))])
    command = [sys.executable, str(folder / "player.py"), str(folder / "steps.json")]
    began = time.monotonic()
    with scraping(folder, target) as server:
        done = invoke.hicachectl("trace", "--metrics-port", target, "--run", str(folder / "run"), "--", *command, env={"PYTHONPATH": path, "SGLANG_PLUGINS": ""}, timeout=120)
        assert done.returncode == 0, done.stderr
        yield server, time.monotonic() - began


def test_every_panel_shows_the_trouble_that_it_is_for(trouble: tuple[Prometheus, float]) -> None:
    """Each query of the dashboard has had a value above 0 where there was something to see."""
    server, seconds = trouble
    quiet = [(title, query) for title, query in dashboard() if not any(value > 0 for value in server.over_time(query, seconds + 5))]
    assert {title for title, _ in quiet} <= NOTHING_TO_SEE
    assert all(server.over_time(query, seconds + 5) for _, query in quiet), "what can be named beforehand is there at 0"


NOTHING_TO_SEE = {"Prefetch occupancy"}
"""Panels of which some query stands at 0: no prefetch ran when the latest one was asked for."""


def test_ranks_are_not_added_up_where_a_sum_means_nothing(trouble: tuple[Prometheus, float]) -> None:
    """Both ranks tell of the same requests: the dashboard takes one; bytes are those of both."""
    server, _ = trouble
    assert server.most("hicache_requests_total") == 2 * 5
    (title, query) = next(each for each in dashboard() if each[0] == "Requests")
    assert 'hicachectl_tp_rank="0"' in query, title
    assert server.most('hicache_requests_total{hicachectl_tp_rank="0"}') == 5
    assert server.most('hicache_lost_tokens_total{hicachectl_tp_rank="0"}') == 128
    assert server.most('hicache_lost_tokens_total{hicachectl_tp_rank="1"}') == 0
    one, both = (server.most(f"mooncake_io_bytes_total{selector}") for selector in ('{hicachectl_tp_rank="0"}', ""))
    assert both == 2 * one > 0
    assert server.most('hicachectl_spans_total{hicachectl_fate="unsent"}') == 20


def test_what_is_served_is_well_formed(tmp_path: Path) -> None:
    """Prometheus' own tool finds nothing to criticise in names, help and types."""
    needs("prometheus_client")
    tool, target = program("promtool"), unused()
    site = invoke.plugin_site(tmp_path / "site")
    path = os.pathsep.join([invoke.environment()["PYTHONPATH"], str(site)])
    running = invoke.start("trace", "--metrics-port", target, "--run", str(tmp_path / "run"), "--", "sleep", "5", env={"PYTHONPATH": path})
    threading.Timer(30, running.kill).start()
    text, until = b"", time.monotonic() + 20
    while not text and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://{target}/metrics", timeout=5) as answer:
                text = answer.read()
        except OSError:
            time.sleep(0.1)
    assert text.count(b"# TYPE") > 15
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    running.wait(20)
    done = subprocess.run([tool, "check", "config", str(invoke.ROOT / "docs" / "prometheus.yml")], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(rb"SUCCESS", done.stdout)
