"""Faults that come with an engine's settings: each with an engine of its own."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import faults_bench as bench
import pytest
from faults_bench import MIB, Bench, explain, tokens
from faults_releases import expected
from installed import only, other_master
from test_one_engine import lost

from hicachectl.lab import model
from hicachectl.lab import store as lab_store

# An engine for each setting or fault: more than the fifteen minutes of `make test` have room for.
pytestmark = [pytest.mark.real, pytest.mark.slow]

TINY = tokens(9, 11)
CERTAIN = tokens(41, 12)


@pytest.fixture(scope="module")
def store() -> Iterator[lab_store.Store]:
    """A store that these engines share; no two of them ask for the same prompt."""
    with bench.store() as running:
        yield running


def test_f11_transferred_and_not_reused(lab: Bench, store: lab_store.Store) -> None:
    """Two pages of 4 tokens are below the load-back minimum: the transfer is done, nothing is reused; 0.5.14 claims 8 all the same."""
    with lab.engine(store, "f11", page_size=4, hicache_storage_backend_extra_config=json.dumps({"prefetch_threshold": 4})) as engine:
        for name, prompt in (("tiny", TINY), ("enough", CERTAIN)):
            engine.store(store, f"{name}-writes", prompt, page=4)
            engine.ask(name, prompt)
            engine.flush()
    found = explain(engine.run, request="tiny")
    tiny = explain(engine.run).request("tiny", engine)
    assert [each["code"] for each in found.findings("tiny")] == expected("F11", "codes")
    assert (found.first("tiny")["args"]["tokens"], found.first("tiny")["args"]["threshold"]) == (8, 10)
    if expected("F11", "claimed"):
        assert (found.code("HC-G02")["args"]["claimed"], found.code("HC-G02")["args"]["actual"]) == (8, 0)
    assert (tiny["ladder"]["transfer_done"], tiny["ladder"]["published"], tiny["ladder"]["prefix_reused"]) == ("yes", "yes", "no")
    assert (tiny["tokens"]["engine_claims"]["storage"], engine.answers["tiny"]["cached_tokens"]) == (expected("F11", "claimed"), 0)
    assert lost(tiny) == {"HC-L02": 8}
    assert explain(engine.run).request("enough", engine)["tokens"]["reused"]["storage"] == 40


def test_f08_a_prefetch_limit_of_nothing(lab: Bench, store: lab_store.Store) -> None:
    """A host pool of the device pool's size and one page of one token: where the limit counts the difference, every prefetch is declined."""
    prompt = tokens(300, 8)
    with lab.engine(store, "f08", page_size=1, hicache_ratio=1.0) as engine:
        engine.store(store, "f08-writes", prompt, page=1)
        engine.ask("f08-again", prompt)
    found = explain(engine.run, request="f08-again")
    if not expected("F08", "code"):
        assert found.request("f08-again", engine)["tokens"]["reused"]["storage"] == 299
        assert "HC-R05" not in [each["code"] for each in found.document["findings"]]
        return
    first = found.document["findings"][0]
    assert (first["code"], first["level"], first["certain"], first["folded"]) == ("HC-A19", "error", True, ["HC-R05"])
    assert first["args"]["limit"] == 0
    assert first["args"]["host_tokens"] == first["args"]["device_tokens"] + 1
    again = found.request("f08-again", engine)
    assert lost(again) == {"HC-R05": 299}
    assert again["ladder"]["found"] == "not_asked"


def test_f15_f27_a_small_store(lab: Bench, tmp_path: Path) -> None:
    """64 pages fit: what is written under pressure drives out what was there (E06), and a longer prompt finds no room (W13)."""
    model.write(tmp_path)
    config = model.CONFIG | {"num_key_value_heads": 4, "head_dim": 256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    early, late = tokens(640, 27), tokens(1500, 15)
    with bench.store(segment=16 * MIB, lease_ttl_ms=1000) as small, lab.engine(small, "f15", model_path=str(tmp_path)) as engine:
        engine.store(small, "f27-writes", early)
        time.sleep(1.5)
        for number in range(4):
            engine.ask(f"f27-pressure{number}", tokens(400, 270 + number))
            time.sleep(1.5)
        engine.flush()
        engine.ask("f27-again", early)
        engine.flush()
        time.sleep(1.5)
        engine.ask("f15-long", late)
        assert bench.soon(lambda: bench.settled(small), 20)
        there = set(bench.keys(small))
    found = explain(engine.run, request="f27-again")
    again, first = found.request("f27-again", engine), found.first("f27-again")
    assert (first["code"], first["level"], first["certain"]) == ("HC-E06", "info", True)
    assert first["args"]["evictions"] > 0
    assert again["ladder"]["found"] in ("no", "partial")
    assert lost(again)["HC-E06"] > 0
    found = explain(engine.run, request="f15-long")
    long, first = found.request("f15-long", engine), found.first("f15-long")
    assert (first["code"], first["level"], first["certain"]) == ("HC-W13", "error", True)
    assert (first["args"]["code"], first["args"]["name"]) == (-200, "NO_AVAILABLE_HANDLE")
    written = sum(there.issuperset(page) for page in engine.objects(late))
    assert (first["args"]["pages"], first["args"]["pages_lost"]) == (93, 93 - written)
    assert 0 < written <= 64
    assert long["ladder"]["written"] == "partial"


def test_f20_a_backend_of_no_known_name(lab: Bench, store: lab_store.Store) -> None:
    """The engine ends, the name is said, and the command's own exit code passes through."""
    run, code = lab.fails(store, "f20", hicache_storage_backend="moonkake")
    found = explain(run)
    first = found.document["findings"][0]
    assert (first["code"], first["level"]) == ("HC-A01", "error")
    assert first["args"]["backend"] == "moonkake"
    assert "moonkake" in first["args"]["error"]
    assert found.document["engines"][0]["backend"]["state"] == "no"
    assert code not in (0, 3)


def test_a_tree_that_has_no_storage(lab: Bench, store: lab_store.Store) -> None:
    """The experimental tree is chosen before the storage settings are looked at, and refuses the host cache: A16 says so where the engine names no tree."""
    only("0.5.14")
    run, code = lab.fails(store, "cpp", env={"SGLANG_EXPERIMENTAL_CPP_RADIX_TREE": "1"})
    found = explain(run)
    first = found.document["findings"][0]
    assert (first["code"], first["level"], first["certain"]) == ("HC-A16", "warning", True)
    assert (first["args"]["backend"], first["args"]["started"]) == ("mooncake", False)
    assert found.document["engines"][0]["backend"]["state"] == "no"
    assert code not in (0, 3)


def test_f22_a_master_of_another_release(lab: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setup returns -900: the number, its name, this client's release, and that the master's must be another."""
    other = Path(other_master())
    monkeypatch.setattr(lab_store, "master_binary", lambda: other)
    with bench.store(segment=0) as foreign:
        run, code = lab.fails(foreign, "f22")
    found = explain(run)
    first = found.document["findings"][0]
    assert (first["code"], first["level"], first["certain"]) == ("HC-A03", "error", True)
    assert (first["args"]["code"], first["args"]["name"]) == (-900, "RPC_FAIL")
    assert first["args"]["client"] == found.document["engines"][0]["mooncake"]
    assert "another release" in first["args"]["cause"]
    assert found.document["engines"][0]["backend"]["state"] == "no"
    assert code != 0


@pytest.mark.slow
def test_f23_no_master_at_the_address(lab: Bench) -> None:
    """Mooncake gives up after 90 s: the engine ends, the address and the time are said."""
    nowhere = {"MOONCAKE_MASTER": "127.0.0.1:1", "MOONCAKE_PROTOCOL": "tcp", "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE", "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1"}
    run, code = lab.fails(nowhere, "f23")
    found = explain(run)
    first = found.document["findings"][0]
    assert (first["code"], first["level"]) == ("HC-A03", "error")
    assert first["args"]["master"] == "127.0.0.1:1"
    assert first["args"]["code"] < 0
    assert 60 < first["args"]["seconds"] < 150
    assert found.document["engines"][0]["backend"]["state"] == "no"
    assert code != 0


@pytest.mark.slow
def test_f19_another_tensor_parallel_size(lab: Bench, store: lab_store.Store) -> None:
    """One rank wrote, two ask: the objects of the second rank were never written, and the first rank's have another size."""
    prompt = tokens(400, 19)
    with lab.engine(store, "f19-one") as engine:
        engine.store(store, "f19-writes", prompt)
    with lab.engine(store, "f19-two", tp_size=2) as two:
        two.ask("f19-asks", prompt)
    found = explain(engine.run, two.run, request="f19-asks")
    row, first = found.request("f19-asks", two), found.first("f19-asks")
    assert (first["code"], first["certain"]) == ("HC-K02", True)
    assert (first["args"]["ours"], first["args"]["theirs"]) == (2, 1)
    assert first["args"]["asked_suffixes"] == "_0_k _0_v _1_k _1_v"
    assert first["args"]["written_suffixes"] == "_0_k _0_v"
    assert lost(row) == {"HC-K02": 384}
