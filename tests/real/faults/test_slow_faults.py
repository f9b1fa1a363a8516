"""Faults that take their time: a master that is gone, an owner that is frozen, an owner that died a moment ago."""

import os
import signal
import time

import faults_bench as bench
import pytest
from faults_bench import Bench, explain, tokens
from test_one_engine import lost

pytestmark = [pytest.mark.real, pytest.mark.slow]

FROZEN_S = 12.0
"""Longer than a get may take, shorter than the store's own limit of 60 s."""


def test_f34_the_master_is_gone(lab: Bench) -> None:
    """Each lookup fails after seconds and counts as a miss: R101 with the number and the time, also for a prompt that nobody wrote."""
    prompts = {name: tokens(400, seed) for seed, name in enumerate(("first", "later", "new"), start=340)}
    with bench.store() as store, lab.engine(store, "f34") as engine:
        for name in ("first", "later"):
            engine.store(store, f"f34-{name}-writes", prompts[name])
        os.kill(store.master_pid, signal.SIGKILL)
        for name, prompt in prompts.items():
            engine.ask(f"f34-{name}", prompt)
    found = explain(engine.run)
    for name in prompts:
        rid = f"f34-{name}"
        row, first = found.request(rid, engine), explain(engine.run, request=rid).document["findings"][0]
        assert (first["code"], first["level"], first["rids"]) == ("HC-R101", "error", [rid])
        assert (first["args"]["code"], first["args"]["name"]) == (-900, "RPC_FAIL")
        assert row["ladder"]["found"] == "no"
        assert lost(row) == ({} if name == "new" else {"HC-R101": 384})
    slow = explain(engine.run, request="f34-later").document["findings"][0]
    assert slow["args"]["ms"] > 3000
    assert found.request("f34-later")["times_ms"]["lookup"] > 3000


def test_f35_the_owner_is_frozen(lab: Bench) -> None:
    """While the get waits: since when, and on whom. When it returns: the read that failed."""
    prompt = tokens(400, 35)
    with bench.store() as store, lab.engine(store, "f35") as engine:
        engine.store(store, "f35-writes", prompt)
        assert store.segment_owner_pid is not None
        os.kill(store.segment_owner_pid, signal.SIGSTOP)
        began = time.time() * 1000
        asked = engine.begin({"f35-again": prompt})
        time.sleep(FROZEN_S)
        waiting = engine.snapshot("f35-waiting")
        engine.end(asked)
        engine.flush()
    found = explain(waiting, request="f35-again")
    first = found.document["findings"][0]
    assert (first["code"], first["level"], first["rids"]) == ("HC-R102", "error", ["f35-again"])
    assert abs(first["args"]["since_ms"] - began) < 5000
    assert first["args"]["seconds"] > 5
    assert first["args"]["key"] == engine.objects(prompt)[0][0]
    assert first["args"]["endpoint"].startswith("127.0.0.1:")
    assert found.request("f35-again")["ladder"]["transfer_done"] == "unknown"
    found = explain(engine.run, request="f35-again")
    row, first = found.request("f35-again", engine), found.first("f35-again")
    assert (first["code"], first["certain"]) == ("HC-R15", True)
    assert (first["args"]["code"], first["args"]["endpoint"][:10]) == (-800, "127.0.0.1:")
    assert (row["ladder"]["found"], row["ladder"]["transfer_done"]) == ("yes", "no")
    assert row["times_ms"]["transfer"] > 30000
    assert lost(row) == {"HC-R15": 384}


def test_f10_the_owner_died_a_moment_ago(lab: Bench) -> None:
    """The engine that wrote owns the memory and is killed: exists says yes, the read fails, and its place is named."""
    prompt = tokens(400, 10)
    with bench.store(segment=0) as store, lab.engine(store, "f10-writes") as first:
        first.store(store, "f10-writes", prompt)
        with lab.engine(store, "f10-asks") as second:
            first.kill()
            second.ask("f10-asks", prompt)
    found = explain(first.run, second.run, request="f10-asks")
    row, told = found.request("f10-asks", second), found.first("f10-asks")
    assert (told["code"], told["level"]) == ("HC-R15", "error")
    assert (told["args"]["code"], told["args"]["name"], told["args"]["exists"]) == (-800, "TRANSFER_FAIL", True)
    assert told["args"]["endpoint"].startswith("127.0.0.1:")
    assert told["args"]["key"] == first.objects(prompt)[0][0]
    assert (row["ladder"]["found"], row["ladder"]["transfer_done"]) == ("yes", "no")
    assert lost(row) == {"HC-R15": 384}
