"""The real engine under the tracers: verdicts, sums, evidence, and an engine that behaves as without them."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import engines
import invoke
import pytest
import verdicts
from installed import needs

from hicachectl.lab import gpu
from hicachectl.release import Release
from hicachectl.store import read
from tracers import vocabulary as v

pytestmark = pytest.mark.real

PROMPT = engines.tokens(597)


def some(count: int, seed: int) -> list[int]:
    """A prompt that shares no prefix with others."""
    numbers = random.Random(seed)
    return [numbers.randrange(1024) for _ in range(count)]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[engines.Played, Path]:
    """The plan of the untraced engine (fixture `reused`) under `hicachectl trace`, with request ids."""
    needs("sglang", "mooncake")
    run = tmp_path_factory.mktemp("traced") / "run"
    plan = [
        engines.generate(PROMPT, rid="cold"),
        engines.written(74),
        engines.generate(PROMPT, rid="warm"),
        engines.flush(),
        engines.generate(PROMPT, rid="stored"),
    ]
    return engines.play(plan, before=("trace", "--run", str(run), "--")), run


@pytest.fixture(scope="module")
def explained(traced: tuple[engines.Played, Path]) -> dict[str, Any]:
    """The verdict on that recording."""
    return verdicts.explained(traced[1])


def test_output_is_the_same_with_and_without_tracing(reused: engines.Played, traced: tuple[engines.Played, Path]) -> None:
    """Token ids and cached tokens of every request equal those of the untraced engine."""
    for without, with_tracers in zip(reused.answers(), traced[0].answers(), strict=True):
        assert with_tracers["output"] == without["output"]
        assert with_tracers["cached_tokens"] == without["cached_tokens"]


def test_a_cold_prompt_is_written_and_nothing_else(explained: dict[str, Any]) -> None:
    """The first request finds nothing, computes all, and its 37 pages reach the store; there is nothing to complain of."""
    row = verdicts.request(explained, "cold")
    assert row["ladder"] == {
        "backend_created": "yes",
        "written": "yes",
        "found": "no",
        "transfer_done": "not_asked",
        "published": "not_asked",
        "loaded_back": "not_asked",
        "prefix_reused": "no",
    }
    assert row["tokens"]["new"] == 592
    assert row["lost"] == []
    assert explained["findings"] == []


def test_a_prefix_on_the_device_asks_the_store_for_nothing(explained: dict[str, Any]) -> None:
    """The second request reuses the device's own pages; every rung below is not asked."""
    row = verdicts.request(explained, "warm")
    assert row["tokens"]["reused"] == {"device": 592, "host": 0, "storage": 0}
    assert {row["ladder"][rung] for rung in ("written", "found", "transfer_done", "published", "loaded_back")} == {"not_asked"}
    assert row["ladder"]["prefix_reused"] == "yes"


def test_a_prefix_from_the_store_climbs_every_rung_and_names_its_writer(explained: dict[str, Any]) -> None:
    """After a flush 592 tokens come from storage, as the engine claims, and the cold request is named as the writer."""
    row = verdicts.request(explained, "stored")
    assert row["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 592} == row["tokens"]["engine_claims"]
    assert {row["ladder"][rung] for rung in ("found", "transfer_done", "published", "loaded_back", "prefix_reused")} == {"yes"}
    assert row["writers"] == [{"engine": row["engine"], "rid": "cold", "tokens": 592}]
    assert row["times_ms"]["lookup"] > 0
    assert row["times_ms"]["transfer"] > 0
    assert row["times_ms"]["load_back"] > 0


def test_the_backend_is_proved_step_by_step(explained: dict[str, Any], traced: tuple[engines.Played, Path]) -> None:
    """Setup returned 0, the host pool is registered, and the evidence names spans that are in the recording."""
    engine = explained["engines"][0]
    assert engine["backend"]["state"] == "yes"
    assert engine["backend"]["setup_code"] == 0
    assert engine["backend"]["registered_bytes"] > 0
    assert engine["backend"]["transport"] == {"asked": "tcp", "in_use": "tcp"}
    assert engine["device"] == "cpu"
    assert engine["stand_in"] is not gpu.present()
    ids = {span.span_id for span in read([traced[1]]).spans}
    assert set(engine["backend"]["evidence"]) <= ids
    assert all(set(rung["evidence"]) <= ids for row in explained["requests"] for rung in row["rungs"].values())


def test_pointers_of_every_put_and_get_lie_in_registered_memory(traced: tuple[engines.Played, Path]) -> None:
    """Over TCP nothing else proves registration: each batch was compared with the ranges, and none lies outside."""
    spans = read([traced[1]]).spans
    batches = [span for span in spans if span.name in (v.STORE_PUT, v.STORE_GET) and v.RANGES in span.attributes]
    registered = len([span for span in spans if span.name == v.BUFFER_REGISTER])  # 0.5.23 registers K and V apart
    assert {span.name for span in batches} == {v.STORE_PUT, v.STORE_GET}
    assert {span.attributes[v.RANGES] for span in batches} == {registered}
    assert {span.attributes[v.UNCOVERED] for span in batches} == {0}


def test_the_recording_is_whole_and_its_spans_are_unique(traced: tuple[engines.Played, Path], explained: dict[str, Any]) -> None:
    """An engine that its script shuts down leaves a complete recording, although SGLang kills its schedulers."""
    assert explained["complete"], explained["incomplete"]
    assert explained["dropped_spans"] == 0
    spans = read([traced[1]]).spans
    assert len({span.span_id for span in spans}) == len(spans)
    assert any(span.name == v.STORE_SAMPLE for span in spans)


def test_page_keys_worked_out_by_the_writer_are_those_that_the_engine_asked_for(traced: tuple[engines.Played, Path]) -> None:
    """The prompt's keys equal the keys of the existence call, page by page."""
    spans = read([traced[1]]).spans
    queued = next(span for span in spans if span.name == v.REQUEST_QUEUED and span.attributes[v.RID] == "cold")
    asked = next(span for span in spans if span.name == v.STORE_EXIST and span.attributes.get(v.RID) == "cold")
    assert queued.attributes[v.PROMPT_PAGE_KEYS] == asked.attributes[v.PAGE_KEYS]
    assert len(str(queued.attributes[v.FINGERPRINT])) == 597 // v.FINGERPRINT_BLOCK * v.FINGERPRINT_DIGITS


def test_every_point_of_this_version_is_on(traced: tuple[engines.Played, Path]) -> None:
    """No hook point is missing or changed in the scheduler, and none has failed."""
    for ledger in read([traced[1]]).ledgers.values():
        if ledger.scheduler:
            assert ledger.ids("missing") == ledger.ids("changed") == ledger.ids("retired") == []
            assert ledger.faults == []


SHARED, BIG = some(300, 1), [some(500, seed) for seed in range(2, 8)]
CROWD = [
    engines.together({f"c{seed}": SHARED + some(50, 10 + seed) for seed in range(3)}),
    engines.wait(1),
    engines.together({f"big{index}": prompt for index, prompt in enumerate(BIG)}),
    engines.wait(1),
    engines.together({"again": SHARED + some(40, 20)}),
    engines.together({"big0": BIG[0], "big1": BIG[1], "mixed": BIG[0][:260] + some(60, 21)}),
    engines.wait(1),
    engines.flush(),
    engines.together({f"flushed{index}": BIG[index] for index in range(3)}),
]
CROWDED = {
    "page_size": 8,
    "max_total_tokens": 2048,
    "hicache_ratio": 3,
    "chunked_prefill_size": 128,
    "hicache_storage_backend_extra_config": '{"prefetch_threshold": 32}',
}


@pytest.mark.parametrize(
    ("tree", "policy"), [("", "best_effort"), ("1", "timeout")], ids=["tree-by-default-best_effort", "unified-tree-timeout"]
)
def test_a_crowded_engine_has_an_exact_account_for_every_request(tree: str, policy: str, tmp_path: Path) -> None:
    """Concurrent, chunked, evicted, repeated and flushed requests: sums hold, and reused equals what the engine returned."""
    needs("sglang", "mooncake")
    run = tmp_path / "run"
    played = engines.play(
        CROWD,
        engine={**CROWDED, "hicache_storage_prefetch_policy": policy},
        before=("trace", "--run", str(run), "--"),
        env={"SGLANG_ENABLE_UNIFIED_RADIX_TREE": tree} if tree else None,
    )
    document = verdicts.explained(run)
    returned = sorted((answer["rid"], answer["cached_tokens"]) for step in played.steps for answer in step.get("answers", ()))
    assert sorted((row["rid"], verdicts.reused(row)) for row in document["requests"]) == returned
    assert all(verdicts.adds_up(row) for row in document["requests"])
    assert document["complete"], document["incomplete"]
    assert {row["attempt"] for row in document["requests"] if row["rid"] == "big0"} == {0, 1}
    only_one = Release.of(document["engines"][0]["sglang"]) >= Release.of("0.5.23")
    assert document["engines"][0]["tree"] == ("UnifiedRadixCache" if tree or only_one else "HiRadixCache")
    serious = [finding for finding in document["findings"] if finding["level"] == "error"]
    assert serious == []


SERVER = """
import os, signal, subprocess, sys, time
import httpx
port = sys.argv[1]
command = [sys.executable, "-m", "sglang.launch_server", "--model-path", os.environ["HICACHECTL_LAB_MODEL"], "--host", "127.0.0.1", "--port", port,
  "--load-format", "dummy", "--skip-tokenizer-init", "--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch",
  "--disable-cuda-graph", "--disable-overlap-schedule", "--max-total-tokens", "4096", "--page-size", "16", "--enable-hierarchical-cache",
  "--hicache-ratio", "2", "--hicache-io-backend", "direct", "--hicache-mem-layout", "page_first_direct", "--hicache-storage-backend", "mooncake",
  "--hicache-storage-prefetch-policy", "wait_complete", "--enable-cache-report", "--log-level", "error"]
server = subprocess.Popen(command)
url = "http://127.0.0.1:" + port
for _ in range(240):
    try:
        if httpx.get(url + "/health", timeout=20).status_code == 200:
            break
    except httpx.HTTPError:
        time.sleep(0.5)
ids = [(7 * i) % 1000 for i in range(400)]
for rid in ("first", "second"):
    told = httpx.post(url + "/generate", json={"input_ids": ids, "rid": rid, "sampling_params": {"max_new_tokens": 3, "temperature": 0}}, timeout=60).json()
    print(rid, told["meta_info"]["cached_tokens"], flush=True)
    time.sleep(1.5)
    httpx.post(url + "/flush_cache", timeout=60)
print("health", httpx.get(url + "/health_generate", timeout=60).status_code, flush=True)
server.send_signal(signal.SIGTERM)
server.wait()
"""


def test_a_server_switched_on_by_environment_alone_leaves_out_warm_up_and_health_checks(tmp_path: Path) -> None:
    """`launch_server` with HICACHECTL_TRACE in its environment: two requests, the right verdicts, and a recording that ended in order."""
    needs("sglang", "mooncake")
    run, script = tmp_path / "run", tmp_path / "server.py"
    script.write_text(SERVER)
    port = str(20000 + os.getpid() % 10000)
    words = invoke.argv("lab", "exec", "--", sys.executable, str(script), port)
    done = subprocess.run(words, env=invoke.environment({"HICACHECTL_TRACE": str(run)}), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "first 0" in done.stdout
    assert "second 384" in done.stdout
    document = verdicts.explained(run)
    assert [row["rid"] for row in document["requests"]] == ["first", "second"]
    assert verdicts.request(document, "second")["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 384}
    assert document["complete"], document["incomplete"]


def test_off_keeps_everything_out_whatever_else_is_set(tmp_path: Path) -> None:
    """HICACHECTL_OFF=1 beside HICACHECTL_TRACE: the plugin imports nothing of the tracers' machinery and leaves no file."""
    needs("sglang")
    script = "from sglang.srt.plugins import load_plugins; load_plugins(); import sys; print(sorted(m for m in sys.modules if m.startswith('tracers')))"
    env = invoke.environment({"HICACHECTL_TRACE": str(tmp_path / "run"), "HICACHECTL_OFF": "1", "SGLANG_PLUGINS": "hicachectl"})
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert json.loads(done.stdout.splitlines()[-1].replace("'", '"')) == ["tracers", "tracers.plugin", "tracers.settings"]
    assert not (tmp_path / "run").exists()
