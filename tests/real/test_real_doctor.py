"""`hicachectl doctor` with the real packages and the real store."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import invoke
import pytest
from installed import needs, other_master

from hicachectl.checks import arguments, inside, layout
from hicachectl.exits import OperatorError
from hicachectl.lab import store as lab_store
from hicachectl.lab.store import Store
from hicachectl.mooncake import master
from hicachectl.release import Release

pytestmark = pytest.mark.real
MIB = 1 << 20
ENGINE = [
    sys.executable,
    "-m",
    "sglang.launch_server",
    "--model-path",
    "/none",
    "--enable-hierarchical-cache",
    "--hicache-storage-backend",
    "mooncake",
]
"""Names a mooncake_master of a release that is not the client's."""


@pytest.fixture(scope="module")
def running() -> Iterator[Store]:
    """A store of this file's own, because gauges are compared."""
    needs("mooncake")
    with lab_store.running(segment=64 * MIB) as store:
        yield store


def doctor(*words: str, env: dict[str, str]) -> tuple[int, dict, dict[str, dict]]:
    """Exit code, document, and the worst result of each check."""
    done = invoke.hicachectl("doctor", "-o", "json", *words, env=env, timeout=300)
    document = json.loads(done.stdout)
    order = ["ok", "info", "warning", "error"]
    checks: dict[str, dict] = {}
    for check in document["checks"]:
        before = checks.get(check["name"])
        if before is None or order.index(check["level"]) > order.index(before["level"]):
            checks[check["name"]] = check
    return done.returncode, document, checks


def test_a_healthy_store_has_no_error(running):
    """With the real client and store nothing is wrong, the store is answered by this client, and doctor leaves no trace in it."""
    before = master.sample(running.http)
    code, document, checks = doctor(env=running.environment())
    after = master.sample(running.http)
    assert code == 0, document["checks"]
    assert checks["libraries"]["level"] == "ok"
    assert checks["master"]["level"] == "ok"
    for gauge in ("keys", "segments", "used_bytes", "capacity_bytes"):
        assert before[gauge] == after[gauge]
    assert {row["name"]: row["origin"] for row in document["values"]}[
        "master_server_address"
    ] == "environment MOONCAKE_MASTER"


def test_sglangs_own_parser_is_asked(running):
    """A whole command line goes through SGLang's own parser, in the command's Python."""
    needs("sglang")
    code, document, checks = doctor("--", *ENGINE, "--hicache-mem-layout", "layer_first", env=running.environment())
    assert code == 0, document["checks"]
    assert checks["command line"]["level"] == "ok"
    assert (checks["layout"]["level"], checks["layout"]["code"]) == ("warning", "HC-A15")


def test_a_misspelt_backend_is_refused_in_sglangs_words(running):
    """A backend that SGLang does not know is an error in its own words, with the code."""
    needs("sglang")
    code, _, checks = doctor("--", *ENGINE[:-1], "moncake", env=running.environment())
    assert code == 1
    assert (checks["command line"]["level"], checks["command line"]["code"]) == ("error", "HC-A01")
    assert "invalid choice: 'moncake'" in checks["command line"]["facts"]["said"]


def test_a_prefetch_limit_of_zero_is_an_error(running):
    """Page size 1 and ratio 1 leave nothing to prefetch with in 0.5.14."""
    needs("sglang")
    code, document, checks = doctor("--quick", "--", *ENGINE, "--hicache-ratio", "1.0", env=running.environment())
    if Release.of(document["sglang"]) < Release.of("0.5.23"):
        assert code == 1
        assert checks["prefetch"]["code"] == "HC-A19"
    else:
        assert checks["prefetch"]["level"] == "ok"


def test_a_stopped_master_is_found_within_the_time_out():
    """A master that accepts and says nothing is an error, and does not hold doctor up."""
    needs("mooncake")
    with lab_store.running(segment=0) as store:
        os.kill(store.master_pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            code, _, checks = doctor("--timeout", "3", env=store.environment())
            assert time.monotonic() - began < 20
        finally:
            os.kill(store.master_pid, signal.SIGCONT)
    assert code == 1
    assert checks["master"]["code"] == "HC-A03"


def test_a_store_without_memory_is_a_warning():
    """Where nobody lends memory and this engine would not either, doctor warns that every put would be refused."""
    needs("mooncake")
    with lab_store.running(segment=0) as store:
        code, _, checks = doctor(env={**store.environment(), "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0"})
    assert code == 0
    assert checks["master"]["level"] == "warning"
    assert "-200" in checks["master"]["title"]


def test_a_master_of_another_release(tmp_path):
    """A master of another release is an error with its story: setup 0, every call -900."""
    needs("mooncake")
    binary = other_master()
    rpc, admin = lab_store._free_ports()
    words = [binary, f"--rpc_port={rpc}", f"--metrics_port={admin}", "--rpc_address=127.0.0.1"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(words, stderr=log, stdout=log) as process:
        try:
            wait_until_serving(f"http://127.0.0.1:{admin}")
            code, _, checks = doctor(
                env={
                    "MOONCAKE_MASTER": f"127.0.0.1:{rpc}",
                    "MOONCAKE_PROTOCOL": "tcp",
                    "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1",
                }
            )
            probed = invoke.hicachectl(
                "probe", "--no-tensors", env={"MOONCAKE_MASTER": f"127.0.0.1:{rpc}", "MOONCAKE_PROTOCOL": "tcp"}
            )
        finally:
            process.kill()
    assert code == 1
    assert "of another release than this client" in checks["master"]["title"]
    assert (checks["master"]["facts"]["setup"], checks["master"]["facts"]["call"]) == (0, -900)
    assert probed.returncode == 1
    assert "of another release than this client" in probed.stdout


BY_RELEASE = {"model_path", "hicache_ratio", "encoder_transfer_backend"}
LAYOUTS = ["layer_first", "page_first", "page_first_direct", "page_head"]


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("backend", ["mooncake", "file"])
@pytest.mark.parametrize("io", ["kernel", "direct", "kernel_ascend"])
@pytest.mark.parametrize("asked", LAYOUTS)
def test_layouts_are_rewritten_as_sglang_does(asked, io, backend, unified):
    """Layout and I/O backend are resolved as the installed SGLang resolves them, for every combination."""
    server_args = pytest.importorskip("sglang.srt.server_args")
    engine = SimpleNamespace(
        hicache_mem_layout=asked,
        hicache_io_backend=io,
        hicache_storage_backend=backend,
        dcp_size=1,
        enable_unified_memory=unified,
    )
    if hasattr(server_args.ServerArgs, "_resolve_layout_io_compatibility"):
        sglang, resolved = "0.5.14", engine
        server_args.ServerArgs._resolve_layout_io_compatibility(engine)
        server_args.ServerArgs._resolve_storage_layout_compatibility(engine)
    else:
        hook = importlib.import_module("sglang.srt.arg_groups.hicache_hook")
        sglang, resolved = "0.5.23", hook.resolving_view(engine)
        hook.resolve_layout_io_compatibility(engine)
        hook.resolve_storage_layout_compatibility(engine)
        hook.resolve_unified_memory_layout_io(engine)
    words = ["--hicache-mem-layout", asked, "--hicache-io-backend", io, "--hicache-storage-backend", backend]
    ours = layout.resolved(arguments.parse([*words, *(["--enable-unified-memory"] if unified else [])]), sglang)
    assert ours[:2] == (resolved.hicache_mem_layout, resolved.hicache_io_backend)


def test_defaults_are_those_of_the_installed_sglang():
    """Every default that doctor assumes is the installed release's own, but for those that differ by release."""
    needs("sglang")
    parsed = inside.parse(sys.executable, os.environ, ["--model-path", "x"])
    assert parsed.values is not None, parsed
    known = {
        row.name: row.default for row in arguments.ROWS if row.name in parsed.values and row.name not in BY_RELEASE
    }
    assert known == {name: parsed.values[name] for name in known}
    assert len(known) > 20
    assert parsed.values["hicache_ratio"] in {None, arguments.DEFAULT_RATIO}


def wait_until_serving(url: str) -> None:
    """Until a master answers at URL."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if master.health(url, 1).service_ready:
                return
        except OperatorError:
            time.sleep(0.1)
    raise AssertionError(url)
