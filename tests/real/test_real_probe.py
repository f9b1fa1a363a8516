"""`hicachectl probe` against the real store: right when all is well, named faults, and nothing left behind."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import invoke
import pytest
from installed import needs

from hicachectl.lab import store as lab_store
from hicachectl.lab.store import Store
from hicachectl.mooncake import master
from hicachectl.mooncake.client import ClientSettings, connected
from hicachectl.mooncake.probe.plan import PREFIX, Plan
from hicachectl.mooncake.probe.report import Report
from hicachectl.mooncake.probe.run import probe
from hicachectl.release import Release

pytestmark = pytest.mark.real
MIB = 1 << 20
GAUGES = ("keys", "segments", "used_bytes", "capacity_bytes")
SMALL = ["--pages", "16", "--repeat", "2", "--no-tensors"]


@pytest.fixture(scope="module")
def running() -> Iterator[Store]:
    """A store of this file's own, because gauges are compared: 64 MiB, with three objects of somebody else in it."""
    needs("mooncake")
    with lab_store.running(segment=64 * MIB) as store:
        with connected(settings(store)) as session:
            session.buffers(MIB)
            for key in ("theirs-1", "theirs-2", "theirs-3"):
                assert session.put(key, 5000).codes == (0,)
        yield store


def settings(store: Store, **changes) -> ClientSettings:
    """How a client connects to the store."""
    return ClientSettings(store.master, **{"local_hostname": "127.0.0.1", **changes})


def run(store: Store, **changes) -> Report:
    """A small probe in this process."""
    return probe(
        Plan(
            settings(store, **changes.pop("client", {})),
            **{"pages": 16, "repeat": 2, "tensors": False, "timeout": 5.0, **changes},
        )
    )


def gauges(store: Store) -> dict[str, int | float]:
    """What a probe must leave as it was."""
    sample = master.sample(store.http)
    return {name: sample[name] for name in GAUGES}


def codes(report: Report) -> dict[str, tuple[bool, int | None, str]]:
    """Each step's verdict."""
    return {step.name: (step.ok, step.code, step.code_name) for step in report.steps}


@contextmanager
def meanwhile(store: Store, deed: Callable[[], None]) -> Iterator[None]:
    """Do something as soon as the probe in the body has objects in the store."""

    def wait() -> None:
        wait_for_own_keys(store)
        deed()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_every_step_of_a_healthy_store(running):
    """With the defaults every step is right, tensors with a refused empty one included, and stderr says so in a line."""
    needs("torch")
    before, keys = gauges(running), master.keys(running.http)
    done = invoke.hicachectl("probe", "-o", "json", env=running.environment(), timeout=180)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "hicachectl/probe/1"
    found = {step["name"]: (step["ok"], step["code"]) for step in document["steps"]}
    assert found == {
        "setup": (True, 0),
        "register": (True, 0),
        "exists_missing": (True, 0),
        "get_missing": (True, -704),
        "warm_up": (True, 0),
        "put": (True, 0),
        "exists": (True, 1),
        "get_into": (True, 0),
        "put_existing": (True, 0),
        "get_too_small": (True, -600),
        "batch_put": (True, 0),
        "batch_exists": (True, 1),
        "batch_get": (True, 0),
        "multi_put": (True, 0),
        "multi_get": (True, 0),
        "tensor_put": (True, 0),
        "tensor_get": (True, 0),
        "tensor_empty": (
            True,
            -600 if Release.of(document["store"]["client"]["release"]) < Release.of("0.3.12") else 0,
        ),
        "remove": (True, 0),
        "close": (True, 0),
    }
    batch = next(step for step in document["steps"] if step["name"] == "batch_put")
    assert (batch["n"], batch["bytes"]) == (8 * 256, 8 * 256 * 65536)
    assert 0 < batch["p50_ms"] <= batch["p99_ms"]
    assert batch["gb_per_s"] > 0
    assert document["left_behind"] == []
    assert document["store"]["transport"]["in_use"] == "tcp"
    assert document["store"]["client"]["segment_size"] == 0
    assert document["store"]["gauges_before"] == document["store"]["gauges_after"] == before == gauges(running)
    assert master.keys(running.http) == keys
    assert done.stderr == "hicachectl: every step went right\n"


def test_the_segment_of_the_configuration_is_not_lent(running):
    """A configuration that names a segment for engines does not make the probe a piece of storage."""
    environment = {**running.environment(), "MOONCAKE_GLOBAL_SEGMENT_SIZE": "1gb"}
    before = master.metrics(running.http)
    assert invoke.hicachectl("probe", *SMALL, env=environment).returncode == 0
    after = master.metrics(running.http)
    assert after["master_mount_segment_requests_total"] == before["master_mount_segment_requests_total"]
    assert gauges(running)["capacity_bytes"] == 64 * MIB


def test_other_keys_are_neither_asked_nor_touched(running):
    """Somebody else's objects are there afterwards, and no lease was taken on them: they can be removed at once."""
    run(running)
    with connected(settings(running)) as session:
        session.buffers(MIB)
        session.put("theirs-4", 100)
    time.sleep(5.2)  # the fresh put's own lease
    run(running)
    assert "theirs-4" in master.keys(running.http)
    with connected(settings(running)) as session:
        assert session.remove(["theirs-4"]).codes == (0,)


def test_side_effects_are_listed(running):
    """The report says what was put and removed, that leases were taken, and which counters moved."""
    report = run(running)
    text = "\n".join(report.side_effects)
    assert f"under {PREFIX}-" in text
    assert "leases" in text
    assert "batch_put_start +" in text


def test_rdma_without_a_device_is_told(running):
    """Asked for rdma on a machine without a device, the probe says that it ran on tcp."""
    if list(Path("/sys/class/infiniband").glob("*")):
        pytest.skip("this machine has RDMA devices")
    report = run(running, client={"protocol": "rdma"})
    transport = report.store["transport"]
    assert (transport["asked"], transport["in_use"]) == ("rdma", "tcp")
    assert "no RDMA device" in transport["remark"]
    assert not report.failed


ASKED = ("batch_put_start", "batch_put_end", "batch_get_replica_list")


def moved(store: Store, deed: Callable[[], Report]) -> tuple[Report, dict[str, float]]:
    """A probe's report, with what the master counted meanwhile: bytes that were put, and requests."""
    before = master.metrics(store.http)
    report = deed()
    after = master.metrics(store.http)
    old, new = master.operations(before), master.operations(after)
    counted: dict[str, float] = {name: new[name][0] - old[name][0] for name in ASKED}
    return report, counted | {"bytes": after["master_value_size_bytes_sum"] - before["master_value_size_bytes_sum"]}


def test_bandwidth_is_told_beside_that_of_a_bare_loop(running):
    """Both directions, and the bare loop's calls are the probe's: as many of them, as many bytes, and all under own keys that are removed."""
    plain, without = moved(running, lambda: run(running))
    report, counted = moved(running, lambda: run(running, bench=True))
    assert not report.failed
    assert report.left_behind == []
    assert [row.step for row in report.bench] == ["batch_put", "batch_get"]
    steps = {step.name: step for step in report.steps}
    rounds = steps["batch_put"].calls
    batch = 16 * 2 * 65536
    for row in report.bench:
        assert (len(row.seconds), len(row.bare_seconds)) == (rounds, rounds)
        assert row.bytes == batch == steps[row.step].bytes / rounds
        assert all(second > 0 for second in (*row.seconds, *row.bare_seconds))
        assert row.ratio == pytest.approx(row.gb_per_s / row.bare_gb_per_s, rel=0.01)
    more = 2 * rounds - 2  # a call of the probe and one of the bare loop a round, where the plain probe made two of its own
    assert {name: counted[name] - without[name] for name in ASKED} == dict.fromkeys(ASKED, more)
    assert counted["bytes"] - without["bytes"] == more * batch
    assert report.put - plain.put == more * 32
    assert steps["remove"].n - next(step.n for step in plain.steps if step.name == "remove") == more * 32


def test_a_probe_larger_than_the_store_takes_no_memory_and_blames_nobody(running):
    """Where the put is refused beforehand, no large buffer is made for it, and the steps that only read still go right."""
    report = run(running, size=1 << 30, pages=1000, timeout=3.0)
    found = codes(report)
    assert found["put"] == (False, None, "NOT_PUT")
    assert found["register"] == (True, 0, "OK")
    assert found["get_missing"] == (True, -704, "OBJECT_NOT_FOUND")
    assert [step.name for step in report.failed] == ["put"]


def test_over_http_alone(running):
    """Through the admin port: health, memory, keys, operations; nothing is asked of any object."""
    before = master.metrics(running.http)
    done = invoke.hicachectl("probe", "--http", "-o", "json", env=running.environment())
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    store = document["store"]
    assert store["service_ready"] is True
    assert store["gauges"] == gauges(running)
    assert "evicted_keys" in store["counters"]
    assert next(row for row in store["operations"] if row["operation"] == "put_start")["succeeded"] > 0
    after = master.metrics(running.http)
    asked = [
        name for name in before if name.endswith("_requests_total") and "ping" not in name and "fetch_tasks" not in name
    ]
    assert {name: after[name] for name in asked} == {name: before[name] for name in asked}


def test_the_admin_port_is_found_beside_a_local_master(running):
    """Without a configured admin port, the local master's own is found, so that the guard works."""
    environment = {
        name: value for name, value in running.environment().items() if name != "MOONCAKE_MASTER_METRICS_PORT"
    }
    done = invoke.hicachectl("probe", *SMALL, "-o", "json", env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["store"]["admin"] == running.http


def test_without_any_capacity_the_refusal_is_explained():
    """A store in which nobody has mounted a segment refuses the put with -200, and the probe says why."""
    needs("mooncake")
    with lab_store.running(segment=0) as store:
        report = run(store)
        assert codes(report)["put"] == (False, -200, "NO_AVAILABLE_HANDLE")
        assert "nobody has mounted a segment" in next(step for step in report.failed if step.name == "put").meaning
        assert codes(report)["get_missing"][0]
        assert report.left_behind == []
        lent = run(store, client={"segment_size": 64 * MIB})
        assert not lent.failed
        assert gauges(store) == {"keys": 0, "segments": 0, "used_bytes": 0, "capacity_bytes": 0}


def test_nothing_is_put_above_the_watermark():
    """When the put would make the store evict, nothing is put, the reason is told, and the exit code is 1."""
    needs("mooncake")
    with lab_store.running(segment=64 * MIB, extra_master_args=["--eviction_high_watermark_ratio=0.5"]) as store:
        with connected(settings(store)) as session:
            session.buffers(24 * MIB)
            assert set(session.batch_put_from([f"x{index}" for index in range(24)], MIB).codes) == {0}
            before = master.metrics(store.http)
            done = invoke.hicachectl("probe", "--no-tensors", "-o", "json", env=store.environment())
            after = master.metrics(store.http)
        document = json.loads(done.stdout)
        assert done.returncode == 1
        put = next(step for step in document["steps"] if step["name"] == "put")
        assert (put["ok"], put["code_name"]) == (False, "NOT_PUT")
        assert "watermark of 50%" in put["meaning"]
        assert document["store"]["guard"]["may_put"] is False
        for name in (
            "master_put_start_requests_total",
            "master_batch_put_start_requests_total",
            "master_evicted_key_count",
        ):
            assert after[name] == before[name]
        assert invoke.hicachectl("probe", *SMALL, env=store.environment()).returncode == 0, "a smaller probe fits"


def test_a_full_store_that_leases_refuses():
    """Below a watermark that lies too high, a put that finds no room is -200 with the store's fullness, and puts stop there."""
    needs("mooncake")
    never_full = ["--eviction_high_watermark_ratio=1.0"]
    with (
        lab_store.running(segment=32 * MIB, extra_master_args=never_full) as store,
        connected(settings(store)) as session,
    ):
        session.buffers(32 * MIB)
        session.batch_put_from([f"x{index}" for index in range(32)], MIB)
        report = run(store, size=1024, pages=1, watermark=1.1)
        bad = report.failed[0]
        assert (bad.code, bad.code_name) == (-200, "NO_AVAILABLE_HANDLE")
        assert "in use" in bad.meaning
        assert report.left_behind == []


def test_the_master_dies_meanwhile():
    """A master that is killed during the probe is named as -900, and the probe ends within a few time-outs."""
    needs("mooncake")
    with lab_store.running(segment=64 * MIB) as store:
        began = time.monotonic()
        with meanwhile(store, lambda: os.kill(store.master_pid, signal.SIGKILL)):
            report = run(store, repeat=2000)
        assert time.monotonic() - began < 30
        assert any(step.code == -900 for step in report.failed), report.failed
        assert "Start the master again" in next(step for step in report.failed if step.code == -900).next


def test_the_owner_dies_meanwhile():
    """A peer that died is named: exists says yes, the get fails with -800, and the endpoint is in the sentence."""
    needs("mooncake")
    with lab_store.running(segment=64 * MIB) as store:
        with meanwhile(store, lambda: os.kill(store.segment_owner_pid, signal.SIGKILL)):
            report = run(store, repeat=2000)
        bad = report.failed[0]
        assert (bad.code, bad.code_name) == (-800, "TRANSFER_FAIL")
        assert "client_ttl" in bad.next
        assert report.left_behind == []


def test_a_frozen_owner_does_not_hang_the_probe():
    """A frozen owner ends the call at the time-out, not after 60 s; once it is thawed, the unfinished put is cleaned up without us."""
    needs("mooncake")
    with lab_store.running(segment=64 * MIB) as store:
        os.kill(store.segment_owner_pid, signal.SIGSTOP)
        began = time.monotonic()
        report = run(store, timeout=2.0)
        took = time.monotonic() - began
        os.kill(store.segment_owner_pid, signal.SIGCONT)
        assert took < 20
        assert (report.failed[0].code, report.failed[0].code_name) == (None, "TIMEOUT")
        assert "does not move bytes" in report.failed[0].meaning
        assert report.unfinished is not None
        assert settled(store, {"keys": 0, "segments": 1, "used_bytes": 0, "capacity_bytes": 64 * MIB})


def test_a_frozen_master_is_no_connection():
    """A master that accepts and says nothing is no connection, within the time-out, with exit 3."""
    needs("mooncake")
    with lab_store.running(segment=0) as store:
        os.kill(store.master_pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            done = invoke.hicachectl("probe", "--timeout", "3", *SMALL, env=store.environment())
            assert time.monotonic() - began < 12
        finally:
            os.kill(store.master_pid, signal.SIGCONT)
    assert done.returncode == 3
    assert "No connection within 3 s" in done.stderr


def test_the_admin_port_taken_for_the_rpc_port(running):
    """The admin port in place of the RPC port is told as that."""
    admin = running.http.removeprefix("http://")
    done = invoke.hicachectl("probe", "--master", admin, "--timeout", "3", env=running.environment())
    assert done.returncode == 3
    assert "This is the master's admin port" in done.stderr


def test_an_interrupt_leaves_nothing(running):
    """Ctrl-C in the middle of the batches ends with 130, and the probe's objects are gone."""
    before = gauges(running)
    with invoke.start("probe", "--no-tensors", "--repeat", "100000", env=running.environment()) as process:
        wait_for_own_keys(running)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert settled(running, before)


def test_a_kill_leaves_nothing(running):
    """Even a probe that is killed leaves no object: its client cleans up."""
    before = gauges(running)
    with invoke.start("probe", "--no-tensors", "--repeat", "100000", env=running.environment()) as process:
        wait_for_own_keys(running)
        process.kill()
        process.wait(30)
    assert settled(running, before)


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_probes_in_a_row_leave_the_store_as_it_was(running, times):
    """Key count, segments, used and total capacity are the same after many probes, each of which went right."""
    before, keys = gauges(running), master.keys(running.http)
    for _ in range(times):
        report = run(running, pages=32, repeat=1)
        assert not report.failed
        assert report.left_behind == []
        assert gauges(running) == before
    assert master.keys(running.http) == keys


def wait_for_own_keys(store: Store) -> None:
    """Until a probe has objects in the store."""
    end = time.monotonic() + 30
    while not any(key.startswith(PREFIX) for key in master.keys(store.http)):
        assert time.monotonic() < end


def settled(store: Store, before: dict[str, int | float]) -> bool:
    """Whether the gauges come back to what they were."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        if gauges(store) == before and not any(key.startswith(PREFIX) for key in master.keys(store.http)):
            return True
        time.sleep(0.1)
    return False
