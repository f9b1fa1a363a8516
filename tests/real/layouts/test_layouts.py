"""Every layout of pages and pools that SGLang 0.5.14 has, on its own classes against a real store: keys, buffers, and how far each pool reaches."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import invoke
import pytest
from installed import needs

from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import Kind, parse
from hicachectl.keys.shape import Shape
from hicachectl.store import Recording, Span, read
from tracers import vocabulary as v

pytestmark = pytest.mark.real

DRIVER = Path(__file__).parent / "layouts_driver.py"
PAGES = 6


def shape(*pools: str, **settings: Any) -> Shape:
    """The shape that the algebra of keys has for a layout of the driver."""
    return Shape(sglang="0.5.14", pools=tuple(parse(pool, "0.5.14") for pool in pools), **settings)


# Layout of the driver -> its shape, the rank and the stage that it plays, and pages of its side pools that are written (the last ones).
SHAPES: dict[str, tuple[Shape, int, int, int]] = {
    "mha": (shape(), 0, 0, PAGES),
    "mha_rank_1": (shape(tp_size=2), 1, 0, PAGES),
    "mha_stage_1": (shape(pp_size=2), 0, 1, PAGES),
    "mha_tagged": (shape(tag="team"), 0, 0, PAGES),
    "mha_page_first": (shape(), 0, 0, PAGES),
    "split_heads": (shape(tp_size=2, tp_lcm_size=4), 1, 0, PAGES),
    "mla": (shape(kind=Kind.mla), 0, 0, PAGES),
    "multi_buffer": (shape(kind=Kind.mla), 0, 0, PAGES),
    "draft": (shape("draft:mha"), 0, 0, PAGES),
    "swa": (shape("swa"), 0, 0, 3),
    "mamba": (shape("mamba:2"), 0, 0, 1),
    "dsa": (shape("indexer", kind=Kind.mla), 0, 0, PAGES),
    "v4": (shape("deepseek_v4_c4", "deepseek_v4_c128"), 0, 0, PAGES),
}
SKIPS = "mla_rank_1"
# Layout and the object that is taken away -> pages found, pages of each pool, and the pool that shortens the prefix.
SHORT: dict[str, tuple[int, list[str], str]] = {
    "swa-_swa_k": (0, ["kv=6", "swa=0"], "swa"),
    "mamba-_temporal": (0, ["kv=6", "mamba=0"], "mamba"),
    "v4-_deepseek_v4_c128": (5, ["kv=6", "deepseek_v4_c4=6", "deepseek_v4_c128=5"], "deepseek_v4_c128"),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict[str, Any]], Recording]:
    """All layouts, one process each, under the tracers: what each printed, and the recording."""
    needs("sglang", "mooncake")
    if metadata.version("sglang") != "0.5.14":
        pytest.skip("the driver speaks to the classes of SGLang 0.5.14")
    run = tmp_path_factory.mktemp("layouts") / "run"
    words = invoke.argv("lab", "exec", "--", sys.executable, str(DRIVER), *SHAPES, SKIPS, *SHORT)
    environment = invoke.environment({"HICACHECTL_TRACE": str(run)})
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    told = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("TOLD")]
    return {each["layout"]: each for each in told}, read([run])


def spans(played: tuple[dict[str, dict[str, Any]], Recording], name: str, *names: str) -> list[Span]:
    """The spans of one layout's process with one of these names, without those of warm-up."""
    told, recording = played
    pid = str(told[name]["pid"])
    found = [span for span in recording.spans if span.name in names and span.engine.split(":")[1] == pid]
    return [span for span in found if "warmup" not in str(span.attributes.get(v.OBJECT_KEYS))]


@pytest.mark.parametrize("name", SHAPES)
def test_objects_are_those_of_the_algebra(played: tuple[dict[str, dict[str, Any]], Recording], name: str) -> None:
    """What lies in the store is what the keys of the shape say, for the rank that wrote, and page keys are those of the tokens."""
    told = played[0][name]
    shape_, rank, stage, trailing = SHAPES[name]
    assert told["hashes"] == page_keys(told["tokens"], told["page"], sglang="0.5.14")
    expected = {
        f"{shape_.prefix}{page}{slot.suffix}"
        for slot in layout(shape_).slots
        if (slot.tp_rank, slot.pp_rank) == (rank, stage)
        for page in told["hashes"][-trailing if slot.pool else 0 :]
    }
    assert set(told["keys"]) == expected
    assert (told["found"], told["read"], told["same"]) == (len(told["tokens"]), len(told["tokens"]), True)


@pytest.mark.parametrize("name", SHAPES)
def test_the_tracers_see_every_object_and_every_buffer(played: tuple[dict[str, dict[str, Any]], Recording], name: str) -> None:
    """Suffixes and page keys of the writes name every object in the store; all succeed, from buffers that are registered."""
    told, puts, gets = played[0][name], spans(played, name, v.STORE_PUT), spans(played, name, v.STORE_GET)
    for calls in (puts, gets):
        assert calls
        assert {key for span in calls for key in objects(span)} == set(told["keys"])
        assert all(span.attributes[v.OBJECTS_OK] == span.attributes[v.OBJECTS] for span in calls)
        assert {span.attributes[v.UNCOVERED] for span in calls} == {0}
        assert all(span.attributes[v.BYTES] == span.attributes[v.BYTES_ASKED] for span in calls)
    assert told["multi_buffer"] == [name == "multi_buffer"]


@pytest.mark.parametrize("name", [name for name in SHAPES if SHAPES[name][0].pools])
def test_side_pools_are_told_of_each(played: tuple[dict[str, dict[str, Any]], Recording], name: str) -> None:
    """`pools.write` and `pools.read` tell pages of each pool, `pools.find` how far each reaches."""
    shape_, _, _, trailing = SHAPES[name]
    written, read_ = spans(played, name, v.WRITE_POOLS), spans(played, name, v.PREFETCH_POOLS_READ)
    whole = [f"{pool.name}={trailing}/{trailing}" for pool in shape_.pools]
    assert [span.attributes[v.POOL_PAGES] for span in written] == [whole] == [span.attributes[v.POOL_PAGES] for span in read_]
    if name == "draft":  # a draft model's pages are read where there are any, and do not shorten the prefix
        assert not spans(played, name, v.PREFETCH_POOLS)
        return
    (found,) = spans(played, name, v.PREFETCH_POOLS)
    assert found.attributes[v.POOL_PAGES] == [f"{pool}={PAGES}" for pool in ("kv", *(pool.name for pool in shape_.pools))]
    assert v.POOL_SHORT not in found.attributes


@pytest.mark.parametrize("name", SHORT)
def test_the_pool_that_shortens_the_prefix_is_named(played: tuple[dict[str, dict[str, Any]], Recording], name: str) -> None:
    """One object of a side pool gone: the KV pages are all there, and the pool that reaches least far is told."""
    told, (pages, each, short) = played[0][name], SHORT[name]
    assert len(told["removed"]) == 1
    (found,) = spans(played, name, v.PREFETCH_POOLS)
    assert (found.attributes[v.FOUND_PAGES], found.attributes[v.POOL_PAGES], found.attributes[v.POOL_SHORT]) == (pages, each, short)
    (lookup,) = spans(played, name, v.PREFETCH_LOOKUP)
    assert lookup.attributes[v.HIT_TOKENS] == pages * told["page"] == told["found"]


def test_a_rank_that_has_what_others_write_writes_nothing(played: tuple[dict[str, dict[str, Any]], Recording]) -> None:
    """Rank 1 of a model whose KV is the same on all ranks: the operation is told as skipped, and the store stays empty."""
    told = played[0][SKIPS]
    assert (told["skip"], told["keys"], told["completed"]) == (True, [], 0)
    (asked,) = spans(played, SKIPS, v.WRITE_ENQUEUE)
    assert asked.attributes[v.BACKUP_SKIP] is True
    assert not spans(played, SKIPS, v.STORE_PUT)


def objects(span: Span) -> list[str]:
    """The objects of a call: what stands in front, the page keys, and each of the suffixes."""
    joined = str(span.attributes[v.PAGE_KEYS])
    pages = [joined[start : start + 64] for start in range(0, len(joined), 64)]
    return [f"{span.attributes.get(v.OBJECT_PREFIX, '')}{page}{suffix}" for page in pages for suffix in span.attributes[v.OBJECT_SUFFIXES]]


def test_every_point_of_side_pools_is_called_and_none_fails(played: tuple[dict[str, dict[str, Any]], Recording]) -> None:
    """The rows of this layer, over all layouts; the plugin comes after the classes were imported, and finds them all the same."""
    ledgers = played[1].ledgers.values()
    called = {point.id for ledger in ledgers for point in ledger.points if point.calls}
    assert {"pools.write", "pools.find", "pools.read"} <= called
    assert {point for ledger in ledgers for point in (*ledger.faulty, *ledger.ids("changed"))} == set()
