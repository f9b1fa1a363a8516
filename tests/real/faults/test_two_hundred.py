"""Two hundred healthy prompts over two engines that share a store: nothing above info, and every token accounted for."""

from collections.abc import Iterator
from itertools import islice, zip_longest

import faults_bench as bench
import pytest
from faults_bench import Bench, Judged, explain
from faults_prompts import mixed

pytestmark = [pytest.mark.real, pytest.mark.slow]

EACH = 100
TURN = 6


@pytest.fixture(scope="module")
def played(lab: Bench) -> tuple[dict[str, bench.Engine], Judged]:
    """Both engines run, and serve by turns; what one has served it forgets, so that it starts from nothing but the store."""
    with bench.store(lease_ttl_ms=5000) as store, lab.engine(store, "one") as one, lab.engine(store, "other") as other:
        for blocks in zip_longest(blocks_of(1), blocks_of(2), fillvalue=[]):
            for engine, block in zip((one, other), blocks, strict=True):
                for group in block:
                    engine.ask_all(group)
                assert bench.soon(lambda: bench.settled(store), 20)
                engine.flush()
    return {"mix1": one, "mix2": other}, explain(one.run, other.run)


def blocks_of(engine: int) -> Iterator[list[dict[str, list[int]]]]:
    """The prompts of an engine, a few groups at a time."""
    groups = iter(mixed(engine, EACH))
    while block := list(islice(groups, TURN)):
        yield block


def test_nothing_above_info_is_found(played: tuple[dict[str, bench.Engine], Judged]) -> None:
    """A healthy load has no warning and no error, whole recordings of both engines."""
    _, found = played
    assert found.document["complete"], found.document["incomplete"]
    assert [each for each in found.document["findings"] if each["level"] != "info"] == []


def test_every_account_is_exact(played: tuple[dict[str, bench.Engine], Judged]) -> None:
    """Each of the two hundred adds up and equals what its engine returned; both engines were served from the other's pages."""
    engines, found = played
    rows = found.document["requests"]
    assert len(rows) == 2 * EACH
    for row in rows:
        found.request(row["rid"], engines[row["rid"].partition("-")[0]])
    for name, engine in engines.items():
        own = [row for row in rows if row["rid"].startswith(f"{name}-")]
        foreign = [writer for row in own for writer in row["writers"] if writer["engine"] != row["engine"]]
        assert len(own) == len(engine.answers) == EACH
        assert sum(row["tokens"]["reused"]["storage"] for row in own) > 0
        assert foreign
