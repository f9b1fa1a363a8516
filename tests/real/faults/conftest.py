"""What the fault bench's tests share."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import faults_bench as bench
import faults_shared as shared
import pytest


def needed() -> None:
    """Skip where this Python has no engine."""
    for package in ("sglang", "mooncake"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed beside this Python")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> bench.Bench:
    """A bench of this module's own."""
    needed()
    return bench.Bench(Path(tmp_path_factory.mktemp("faults")))


@pytest.fixture(scope="session")
def runs_bench(tmp_path_factory: pytest.TempPathFactory) -> bench.Bench:
    """Where the engines of the shared store live."""
    needed()
    return bench.Bench(Path(tmp_path_factory.mktemp("shared")))


@pytest.fixture(scope="session")
def alone(runs_bench: bench.Bench) -> Iterator[shared.Runs]:
    """The first engine on the shared store: it writes, and asks for what it wrote."""
    with bench.store(lease_ttl_ms=5000) as store:
        played = shared.Runs(store)
        with runs_bench.engine(store, "first", max_running_requests=4, hicache_storage_backend_extra_config=json.dumps(shared.TIMEOUT)) as engine:
            played.engines["first"] = engine
            shared.first(played, engine)
        yield played


@pytest.fixture(scope="session")
def runs(alone: shared.Runs, runs_bench: bench.Bench) -> shared.Runs:
    """Engines on one store, one after the other: the first writes, the others ask for it with other settings."""
    store, played = alone.store, alone
    extra = json.dumps(shared.elsewhere(store))
    with runs_bench.engine(store, "wide", env=shared.IGNORED, page_size=32, chunked_prefill_size=128, hicache_storage_backend_extra_config=extra) as engine:
        played.engines["wide"] = engine
        shared.wide(played, engine)
    with runs_bench.engine(store, "float", dtype="float32") as engine:
        played.engines["float"] = engine
        shared.other_type(played, engine)
    with runs_bench.engine(store, "second", hicache_storage_backend_extra_config=json.dumps({"enable_group_semantics": True, **shared.TIMEOUT})) as engine:
        played.engines["second"] = engine
        shared.second(played, engine)
    return played
