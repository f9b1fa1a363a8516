"""A store whose memory a client process of its own owns: the engine has a dummy client, and shares its host pool with that process."""

import json
import os
import socket
import time
from pathlib import Path

import faults_bench as bench
import pytest
from faults_bench import MIB, Bench, Engine, explain, tokens
from faults_releases import differs, expected

from hicachectl.lab import store as lab_store
from hicachectl.store import read
from tracers import vocabulary as v

# An engine of its own: more than the fifteen minutes of `make test` have room for.
pytestmark = [pytest.mark.real, pytest.mark.slow]

PROMPT = tokens(400, 61)


@pytest.fixture(scope="module")
def engine(lab: Bench) -> Engine:
    """An engine whose client is a dummy: a prompt written, and asked again from the store."""
    if not expected("standalone", "serves"):
        pytest.skip(differs("standalone", "serves").why)
    with bench.store(segment=0) as store, lab.engine(store, "standalone", hicache_storage_backend_extra_config=json.dumps(beside(store))) as started:
        started.store(store, "writes", PROMPT)
        started.ask("again", PROMPT)
    return started


def beside(store: lab_store.Store) -> dict[str, object]:
    """Start the process that owns the memory; the settings that an engine needs to use it."""
    binary = lab_store.master_binary().with_name("mooncake_client")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--host=127.0.0.1", f"--port={port}", "--protocol=tcp", "--metadata_server=P2PHANDSHAKE", f"--global_segment_size={256 * MIB}"]
    log = store.keeper.scratch / "mooncake_client.log"
    store.keeper.start([str(binary), f"--master_server_address={store.master}", *words], dict(os.environ), log=log, service=True)
    assert bench.soon(lambda: served(port), 30), log.read_text(errors="replace")[-2000:]
    return {"client_server_address": f"127.0.0.1:{port}", "master_server_address": store.master, "standalone_storage": True, "protocol": "tcp"}


def served(port: int) -> bool:
    """Whether something answers there."""
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_a_dummy_client_serves(engine: Engine) -> None:
    """Written through the client process, found, transferred and reused; nothing is found that is worse than an info."""
    document = explain(engine.run).document
    row = explain(engine.run).request("again", engine)
    assert set(row["ladder"].values()) <= {"yes", "not_asked"}
    assert row["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 384}
    assert [(each["rid"], each["tokens"]) for each in row["writers"]] == [("writes", 384)]
    assert [each["code"] for each in document["findings"] if each["level"] != "info"] == []


def test_the_backend_is_proved_with_the_dummy_setup(engine: Engine) -> None:
    """The configuration says that it is standalone, the setup of the dummy client returned 0, the host pool is registered and covers every put and get."""
    spans = read([engine.run]).spans
    config = next(span for span in spans if span.name == v.BACKEND_CONFIG)
    assert (config.attributes[v.STANDALONE], config.attributes[v.CONFIG_SOURCE]) == (True, "extra_config")
    assert [span.attributes[v.CODE] for span in spans if span.name == v.STORE_SETUP] == [0]
    backend = explain(engine.run).document["engines"][0]["backend"]
    assert (backend["state"], backend["setup_code"]) == ("yes", 0)
    assert backend["registered_bytes"] > 0
    batches = [span for span in spans if span.name in (v.STORE_PUT, v.STORE_GET) and v.RANGES in span.attributes]
    assert batches
    assert {span.attributes[v.UNCOVERED] for span in batches} == {0}


def test_a_pool_that_the_dummy_client_refuses_is_named_with_its_size(lab: Bench) -> None:
    """Setup succeeds, the registration of one half of the pool does not: A20 with the code and the bytes, and an engine that ends."""
    if expected("standalone", "serves"):
        pytest.skip("this release registers the pool as a whole")
    with bench.store(segment=0) as store:
        run, code = lab.fails(store, "refused", hicache_storage_backend_extra_config=json.dumps(beside(store)))
    found = explain(Path(run))
    first = found.document["findings"][0]
    assert (first["code"], first["args"]["pool"], first["args"]["code"]) == ("HC-A20", "kv", -1)
    assert first["args"]["bytes"] > 0
    backend = found.document["engines"][0]["backend"]
    assert (backend["state"], backend["setup_code"], backend["registered_bytes"]) == ("no", 0, 0)
    assert code != 0


def test_without_the_client_process_the_engine_ends_and_the_code_is_told(lab: Bench) -> None:
    """Nothing listens at the client's address: setup fails, A03 with the number, and the command's own exit code passes through."""
    with bench.store(segment=0) as store:
        extra = {"client_server_address": "127.0.0.1:1", "master_server_address": store.master, "standalone_storage": True}
        began = time.monotonic()
        run, code = lab.fails(store, "no-client", hicache_storage_backend_extra_config=json.dumps(extra))
        seconds = time.monotonic() - began
    found = explain(Path(run))
    first = found.document["findings"][0]
    assert (first["code"], first["level"]) == ("HC-A03", "error")
    assert first["args"]["code"] != 0
    assert found.document["engines"][0]["backend"]["state"] == "no"
    assert code != 0
    assert seconds < bench.START_S
