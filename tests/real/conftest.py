"""What tests of the real path share: one store, and one engine run, for all of them."""

from collections.abc import Iterator

import engines
import pytest
from installed import needs

from hicachectl.lab import store as lab_store
from hicachectl.lab.store import Store


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """A store of 64 MiB with short leases; who uses it cleans up its own keys."""
    needs("mooncake")
    with lab_store.running(segment=64 * 1024 * 1024, lease_ttl_ms=200) as running:
        yield running


@pytest.fixture(scope="session")
def reused() -> engines.Played:
    """One untraced engine: a prompt of 597 tokens cold, warm, and again after a flush."""
    needs("sglang", "mooncake")
    prompt = engines.tokens(597)
    return engines.play(
        [
            engines.generate(prompt),
            engines.written(74),
            engines.generate(prompt),
            engines.flush(),
            engines.generate(prompt),
            engines.keys(),
            engines.values("HICACHECTL_STAND_IN"),
        ]
    )
