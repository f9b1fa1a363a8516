"""Settings that do nothing, and a detach that stops half way: one engine that has them all, and what is said of each."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faults_bench as bench
import pytest
from faults_bench import Bench, Engine, explain, tokens
from test_one_engine import lost

# An engine of its own, and a detach that waits its 10 s: more than the fifteen minutes of `make test` have room for.
pytestmark = [pytest.mark.real, pytest.mark.slow]

ENVIRONMENT = {"SGLANG_RADIX_FORCE_MISS": "1", "MOONCAKE_DEVICE": json.dumps({"1": "mlx5_0"})}
EXTRA = {"tp_lcm_size": 2, "prefetch_timeout_base": 1.0, "prefetch_timeout_per_ki_token": 0.1}
HANGS_S = 20.0
"""Longer than the deadline of EXTRA and the 10 s that a detach waits for a thread, together."""
PROMPTS = {name: tokens(length, length) for name, length in (("again", 400), ("late", 500), ("fresh", 600))}


@dataclass
class Played:
    """The engine, its answers to each detach, and its recording as it was after the first."""

    engine: Engine
    half_way: Path = Path()
    answers: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(scope="module")
def played(lab: Bench) -> Played:
    """Asked twice; then detached while a read hangs behind a request that has given it up, and asked again."""
    settings = {"hicache_mem_layout": "layer_first", "hicache_storage_prefetch_policy": "timeout", "hicache_storage_backend_extra_config": json.dumps(EXTRA)}
    with bench.store() as store, lab.engine(store, "odd", env=ENVIRONMENT, **settings) as engine:
        told = Played(engine)
        for name in ("again", "late"):
            engine.store(store, f"{name}-writes", PROMPTS[name])
        engine.ask("again", PROMPTS["again"])
        engine.flush()
        engine.sabotage(get={"sleep": HANGS_S})
        engine.ask("late", PROMPTS["late"])
        told.answers.append(detached(engine))
        told.half_way = engine.snapshot("half-way")
        engine.ask("between", PROMPTS["again"])
        engine.ask("fresh", PROMPTS["fresh"])
        time.sleep(2)
        told.answers.append(engine.tell("detach"))
    return told


def detached(engine: Engine) -> dict[str, Any]:
    """The answer to a detach, once the engine has nothing under way: before, its scheduler refuses without asking the tree."""
    deadline = time.monotonic() + 5
    while "not idle" in (answer := engine.tell("detach"))["message"] and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


def test_settings_that_do_nothing(played: Played) -> None:
    """A device for another rank (A08), a layout that is replaced (A15), heads that are not split (A18): each with the setting and what is in force."""
    found = explain(played.half_way)
    told = {code: found.code(code) for code in ("HC-A08", "HC-A15", "HC-A18")}
    assert {(each["level"], each["certain"]) for each in told.values()} == {("warning", True)}
    device, layout, heads = (each["args"] for each in told.values())
    assert (device["reason"], device["rank"], device["device_name"]) == ("has no entry for this rank", 0, ENVIRONMENT["MOONCAKE_DEVICE"])
    assert (layout["asked"], layout["layout"], layout["io_backend"]) == ("layer_first", "page_first_direct", "direct")
    assert (heads["tp_lcm_size"], heads["reason"]) == (2, "the host memory layout is page_first_direct, not page_head")


def test_prefix_matching_that_is_off(played: Played) -> None:
    """Fetched and never matched: G06 names the variable, and every token is lost to it."""
    found = explain(played.half_way, request="again")
    again, first = found.request("again", played.engine), found.first("again")
    assert (first["code"], first["level"], first["certain"], first["args"]["reason"]) == ("HC-G06", "info", True, "SGLANG_RADIX_FORCE_MISS")
    assert (again["ladder"]["found"], again["ladder"]["published"], again["ladder"]["prefix_reused"]) == ("yes", "yes", "no")
    assert lost(again) == {"HC-G06": 384}


def test_a_detach_that_stops_half_way(played: Played) -> None:
    """The request had given its read up, the thread had not: A14 names the thread, the 10 s and the engine's own words; the request's loss is R18's."""
    assert "detach aborted" in played.answers[0]["message"]
    first = explain(played.half_way).document["findings"][0]
    assert (first["code"], first["level"], first["certain"], first["rids"]) == ("HC-A14", "error", True, [])
    assert (first["args"]["thread"], first["args"]["reason"]) == ("prefetch_io_aux_thread", "Stop storage threads failed; detach aborted.")
    assert 9 <= first["args"]["seconds"] <= 14
    late = explain(played.half_way, request="late").request("late", played.engine)
    assert lost(late) == {"HC-R18": 496}


@pytest.mark.parametrize(("rid", "written", "cost"), [("between", "not_asked", {"HC-A14": 384}), ("fresh", "no", {})])
def test_after_a_detach_that_stopped_half_way(played: Played, rid: str, written: str, cost: dict[str, int]) -> None:
    """The backend is attached and two of its threads are gone: nothing is looked up or written, and A14 comes first."""
    found = explain(played.engine.run, request=rid)
    row, first = found.request(rid, played.engine), found.first(rid)
    assert (first["code"], first["level"], first["rids"]) == ("HC-A14", "error", ["between", "fresh"])
    assert (row["ladder"]["found"], row["ladder"]["written"], row["ladder"]["prefix_reused"]) == ("not_asked", written, "no")
    assert lost(row) == cost


def test_the_engine_is_never_idle_again(played: Played) -> None:
    """A write that nobody takes is under way for ever: the next detach is refused."""
    assert "not idle" in played.answers[1]["message"]
