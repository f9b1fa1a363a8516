"""What the engines on the shared store do, in order; the tests look at the recordings afterwards.

The first engine writes for the others. Every scenario has its own prompt and its own request ids, so that `explain --request` tells them apart.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import faults_bench as bench
from faults_bench import Engine
from faults_prompts import PROMPTS, mixed

from hicachectl.lab.store import Store

TIMEOUT = {"prefetch_timeout_base": 0.2, "prefetch_timeout_per_ki_token": 0.1}
SLOW_S = 1.2
"""Longer than the deadline of TIMEOUT, and than a scheduler needs for a round."""


@dataclass
class Runs:
    """Recordings of the engines on the shared store."""

    store: Store
    engines: dict[str, Engine] = field(default_factory=dict)
    snapshots: dict[str, Path] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)

    def of(self, *names: str) -> list[Path]:
        """Recordings by the names of their engines."""
        return [self.engines[name].run for name in names]


def mix(engine: Engine, number: int, count: int) -> None:
    """A healthy mixed load; now and then the engine starts from nothing but the store."""
    for place, group in enumerate(mixed(number, count)):
        engine.ask_all(group)
        if place % 6 == 5:
            time.sleep(0.3)
            engine.flush()
    time.sleep(0.5)
    engine.flush()


def first(runs: Runs, engine: Engine) -> None:
    """Everything that needs one engine with the usual settings, and what the others will ask for."""
    store = runs.store
    mix(engine, 1, 50)
    runs.snapshots["first"] = engine.snapshot("first-mixed")
    for name in ("f01", "f02", "f03", "f05", "f05b", "f06", "f07", "f16", "f17", "f18", "f30", "f32a", "f12"):
        engine.store(store, f"{name}-writes", PROMPTS[name])
    engine.ask("f01-again", PROMPTS["f01"])
    engine.ask("f03-again", PROMPTS["f03"])
    engine.store(store, "f04-part", PROMPTS["f04"][:128])
    engine.ask("f04-whole", PROMPTS["f04"])
    missing(runs, engine)
    budget(runs, engine)
    cut_off(runs, engine)
    policies(engine)
    limited(runs, engine)
    twice(runs, engine)
    waiting(runs, engine)


def missing(runs: Runs, engine: Engine) -> None:
    """One object of a page is gone: early in the prompt, and behind the threshold."""
    for name, page in (("f05", 5), ("f05b", 20)):
        bench.remove(runs.store, engine.objects(PROMPTS[name])[page][1])
        engine.ask(f"{name}-again", PROMPTS[name])


def budget(runs: Runs, engine: Engine) -> None:
    """Four long prompts at once."""
    names = [f"f09-{number}" for number in range(4)]
    for name in names:
        engine.store(runs.store, f"{name}-writes", PROMPTS[name])
    engine.ask_all({f"{name}-again": PROMPTS[name] for name in names})
    engine.flush()


def cut_off(runs: Runs, engine: Engine) -> None:
    """The policy ends a prefetch whose pages have not come."""
    for name, policy in (("f06", "best_effort"), ("f07", "timeout")):
        assert engine.tell("attach", prefetch=policy)["success"]
        engine.sabotage(get={"sleep": SLOW_S})
        engine.ask(f"{name}-again", PROMPTS[name])
        engine.sabotage()
        time.sleep(SLOW_S)
        engine.flush()
    assert engine.tell("attach", prefetch="wait_complete")["success"]


def policies(engine: Engine) -> None:
    """A prompt is seen once under each policy that does not write it then."""
    for name, policy in (("f13", "write_through_selective"), ("f14", "write_back")):
        assert engine.tell("attach", write=policy)["success"]
        engine.ask(f"{name}-once", PROMPTS[name], new=1)
        time.sleep(0.3)
        engine.flush()
    assert engine.tell("attach", write="write_through")["success"]


def limited(runs: Runs, engine: Engine) -> None:
    """A scheduler that gives a load a limit which its pages do not fit."""
    engine.store(runs.store, "l03-writes", PROMPTS["l03"])
    engine.sabotage(load={"quota": 16})
    engine.ask("l03-again", PROMPTS["l03"])
    engine.sabotage()
    engine.flush()


def twice(runs: Runs, engine: Engine) -> None:
    """Two requests fetch the same prompt at once."""
    engine.store(runs.store, "r23-writes", PROMPTS["r23"])
    engine.ask_all({"r23-one": PROMPTS["r23"], "r23-other": PROMPTS["r23"]})
    engine.flush()


def waiting(runs: Runs, engine: Engine) -> None:
    """No slot, and no room on the device, while a prefetch is done."""
    held(runs, engine, {f"f30-busy{number}": bench.tokens(40, 300 + number) for number in range(4)}, "f30", 600)
    held(runs, engine, {"f12-busy": bench.tokens(1800, 400)}, "f12", 2000)


def held(runs: Runs, engine: Engine, crowd: dict[str, list[int]], name: str, new: int) -> None:
    """Ask while CROWD runs, and end the crowd after a while."""
    running = engine.begin(crowd, new=new)
    for prompt in crowd.values():
        engine.written(runs.store, prompt)  # so its prefill is over
    asked = engine.begin({f"{name}-again": PROMPTS[name]})
    time.sleep(2.5)
    for rid in crowd:
        engine.tell("abort", rid=rid)
    engine.end(asked)
    engine.reply(running)
    engine.flush()


IGNORED = {"MOONCAKE_DEVICE": "mlx5_9"}
"""Set in the environment, and overridden by `elsewhere`."""


def elsewhere(store: Store) -> dict[str, str]:
    """Settings of the same store in extra_config, with a transport that this machine does not have."""
    return {"master_server_address": store.master, "protocol": "rdma", "global_segment_size": "0", "local_hostname": "127.0.0.1"}


def wide(runs: Runs, engine: Engine) -> None:
    """Pages twice as long; what this engine writes itself it finds again."""
    engine.ask("f17-wide", PROMPTS["f17"])
    engine.store(runs.store, "f33-writes", PROMPTS["f33"], page=32)
    engine.ask("f33-again", PROMPTS["f33"])
    engine.flush()
    engine.store(runs.store, "g04-writes", PROMPTS["g04"][:320], page=32)
    engine.ask("g04-longer", PROMPTS["g04"])
    engine.sabotage(insert={"sleep": 0.2})
    cut = engine.begin({"w03-cut": PROMPTS["w03"]})
    time.sleep(2.0)
    engine.tell("abort", rid="w03-cut")
    engine.reply(cut)
    engine.sabotage()


def other_type(runs: Runs, engine: Engine) -> None:
    """An engine whose objects are twice as large; then the same engine under a tag."""
    engine.ask("f32-smaller", PROMPTS["f32a"])
    engine.store(runs.store, "f32-writes", PROMPTS["f32b"])
    assert engine.tell("detach")["success"]
    engine.ask("k10-before", PROMPTS["k10"][:400])
    assert engine.tell("attach", extra={"extra_backend_tag": "team-b"})["success"]
    engine.ask("f18-tagged", PROMPTS["f18"])
    engine.ask("k10-after", PROMPTS["k10"])


def second(runs: Runs, engine: Engine) -> None:
    """An engine like the first: what it gets from it, and what must come last because it harms store or engine."""
    store = runs.store
    engine.ask("f02-other", PROMPTS["f02"])
    engine.ask("f16-short", PROMPTS["f16"])
    engine.flush()
    mix(engine, 2, 50)
    runs.snapshots["second"] = engine.snapshot("second-mixed")
    engine.ask("f32-larger", PROMPTS["f32b"])
    engine.flush()
    namespaces(runs, engine)
    assert not engine.tell("attach", backend="file")["success"]
    assert engine.tell("attach", extra={"prefetch_threshold": 64})["success"]
    engine.ask("f25-after", PROMPTS["f25"])
    cleared(runs, engine)
    engine.store(store, "f31-writes", PROMPTS["f31"])
    time.sleep(1.5)
    store.restart_master()
    assert bench.soon(lambda: bench.segments(store), 30)
    engine.ask("f31-again", PROMPTS["f31"])
    engine.flush()
    runs.snapshots["f31"] = engine.snapshot("f31")
    dying(runs, engine)


def namespaces(runs: Runs, engine: Engine) -> None:
    """A plain request writes, one with an extra key asks for the same prompt, and then a plain one again."""
    engine.store(runs.store, "k12-writes", PROMPTS["k12"])
    engine.ask("k12-adapter", PROMPTS["k12"], extra_key="adapter-a")
    engine.ask("k12-plain", PROMPTS["k12"])
    engine.flush()


def cleared(runs: Runs, engine: Engine) -> None:
    """The store is cleared while some of its objects are leased."""
    engine.store(runs.store, "f26-writes", PROMPTS["f26"])
    time.sleep(6.0)
    engine.ask("f26-reads", PROMPTS["f26"])
    time.sleep(1.2)
    runs.facts["before"] = bench.count(runs.store)
    assert engine.tell("clear")["success"]
    runs.facts["after"] = bench.count(runs.store)
    engine.flush()


def dying(runs: Runs, engine: Engine) -> None:
    """The prefetch I/O thread dies, then the lookup's, then the backup thread; a flush starts all of them anew."""
    engine.store(runs.store, "f29-writes", PROMPTS["f29"])
    engine.store(runs.store, "f29-writes-too", PROMPTS["f29b"])
    assert engine.tell("attach", prefetch="timeout")["success"]
    engine.sabotage(get={"raise": "the disk is on fire"})
    engine.ask("f29-again", PROMPTS["f29"])
    engine.sabotage()
    engine.ask("f29-later", PROMPTS["f29b"])
    engine.flush()
    engine.store(runs.store, "lookup-writes", PROMPTS["lookup"])
    engine.sabotage(exists={"raise": "no answer"})
    engine.ask("lookup-again", PROMPTS["lookup"])
    engine.sabotage()
    engine.flush()
    runs.snapshots["f29"] = engine.snapshot("f29")
    engine.sabotage(put={"raise": "no more pages"})
    engine.ask("f28-first", PROMPTS["f28"])
    engine.sabotage()
    engine.ask("f28-next", PROMPTS["f28b"])
