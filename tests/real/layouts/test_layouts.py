"""Every layout of pages and pools that SGLang has, on its own classes against a real store: keys, buffers, and how far each pool reaches."""

import importlib.util
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import invoke
import pytest
from installed import needs

from hicachectl.diagnosis.run import diagnose
from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import Kind, Policy, parse
from hicachectl.keys.shape import Shape
from hicachectl.model.objects import batch
from hicachectl.store import Recording, Span, read
from tracers import vocabulary as v

pytestmark = pytest.mark.real

DRIVER = Path(__file__).parent / "layouts_driver.py"
PAGES = 6
RELEASE = metadata.version("sglang") if importlib.util.find_spec("sglang") else "0.5.14"
DRIVEN = ("0.5.14", "0.5.23")
NEWEST = RELEASE == "0.5.23"


def shape(*pools: str, **settings: Any) -> Shape:
    """The shape that the algebra of keys has for a layout of the driver."""
    return Shape(sglang=RELEASE, model_name="a-model", pools=tuple(parse(pool, RELEASE) for pool in pools), **settings)


def v4(*names: str) -> Shape:
    """DeepSeek V4 with these of its pools: all ranks have the same."""
    return shape(*(name if name == "swa" else f"deepseek_v4_{name}" for name in names), kind=Kind.mla)


# Layout of the driver -> its shape, the rank and the stage that it plays, and how many pages (the last ones) a pool with a window has.
SHAPES: dict[str, tuple[Shape, int, int, int]] = {
    "mha": (shape(), 0, 0, PAGES),
    "mha_rank_1": (shape(tp_size=2), 1, 0, PAGES),
    "mha_stage_1": (shape(pp_size=2), 0, 1, PAGES),
    "mha_rank_1_stage_1": (shape(tp_size=2, pp_size=2), 1, 1, PAGES),
    "mla_stage_1": (shape(kind=Kind.mla, pp_size=2), 0, 1, PAGES),
    "mha_tagged": (shape(tag="team"), 0, 0, PAGES),
    "mha_grouped": (shape(), 0, 0, PAGES),
    "mha_page_first": (shape(), 0, 0, PAGES),
    "split_heads": (shape(tp_size=2, tp_lcm_size=4), 1, 0, PAGES),
    "mla": (shape(kind=Kind.mla), 0, 0, PAGES),
    "multi_buffer": (shape(kind=Kind.mla), 0, 0, PAGES),
    "draft": (shape("draft:mha"), 0, 0, PAGES),
    "swa": (shape("swa"), 0, 0, 3),
    "mamba": (shape("mamba:2"), 0, 0, 1),
    "dsa": (shape("indexer", kind=Kind.mla), 0, 0, PAGES),
    "v4": (v4("c4", "c4_indexer", "c128", "swa", "c4_state", "c4_indexer_state", "c128_state"), 0, 0, 3),
}
# Layouts that only the newest release has: pools that came after 0.5.14, and a draft model's pool as a side pool like any other.
NEWER: dict[str, tuple[Shape, int, int, int]] = (
    {
        "draft_mla": (shape("draft:mha", kind=Kind.mla), 0, 0, PAGES),
        "v4": (v4("c4", "c4_rope", "c4_indexer", "c4_indexer_scale", "c128", "c128_rope", "swa", "c4_state", "c4_indexer_state", "c128_state"), 0, 0, 3),
        "v41": (v4("c1", "c1_indexer", "c1_indexer_scale", "c2", "c2_indexer", "c2_indexer_scale"), 0, 0, 3),
    }
    if NEWEST
    else {}
)
SHAPES |= NEWER
DRAFT_IS_SIDE_POOL = NEWEST
"""On 0.5.14 a draft model's pages are read where there are any, and do not shorten the prefix."""
SKIPS, UNWRITTEN, GROUPED = "mla_rank_1", "unwritten", "mha_grouped"
# Layout and the object that is taken away -> pages found, pages of each pool, and the pool that shortens the prefix.
SHORT: dict[str, tuple[int, list[str], str]] = {
    "swa-_swa_k": (0, ["kv=6", "swa=0"], "swa"),
    "mamba-_temporal": (0, ["kv=6", "mamba=0"], "mamba"),
    "v4-_deepseek_v4_c4_state": (0, ["kv=6", "deepseek_v4_c4_state=0"], "deepseek_v4_c4_state"),
}
if NEWEST:  # 0.5.14 reads such a pool with all its host slots for fewer pages, and the read raises
    SHORT["dsa-_indexer"] = (5, ["kv=6", "indexer=5"], "indexer")
# Layout and the object that is taken away -> the page that it is of.
FORETOLD = {"mha-_v@3": 2, "mha-_k@1": 0, "mla-_k@5": 4, "mla-_k@2": 1}
MORE = [*FORETOLD, SKIPS, UNWRITTEN, *(["mamba_rank_1"] if NEWEST else [])]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the recording goes."""
    return tmp_path_factory.mktemp("layouts") / "run"


@pytest.fixture(scope="module")
def played(run: Path) -> tuple[dict[str, dict[str, Any]], Recording]:
    """All layouts, one process each, under the tracers: what each printed, and the recording."""
    needs("sglang", "mooncake")
    if RELEASE not in DRIVEN:
        pytest.skip(f"the driver speaks to the classes of SGLang {' and '.join(DRIVEN)}")
    words = invoke.argv("lab", "exec", "--", sys.executable, str(DRIVER), *SHAPES, *MORE, *SHORT)
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
    assert told["hashes"] == page_keys(told["tokens"], told["page"], sglang=RELEASE)
    expected = {
        f"{shape_.prefix}{page}{slot.suffix}"
        for slot in layout(shape_).slots
        if (slot.tp_rank, slot.pp_rank) == (rank, stage)
        for page in told["hashes"][-trailing if slot.policy is Policy.trailing_pages else 0 :]
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
    pages = {pool.name: trailing if pool.row.policy is Policy.trailing_pages else PAGES for pool in shape_.pools}
    for calls in (spans(played, name, v.WRITE_POOLS), spans(played, name, v.PREFETCH_POOLS_READ)):
        told = [each for call in calls for each in call.attributes[v.POOL_PAGES]]  # from 0.5.23 on one call for each chain of pages
        assert sorted(told) == sorted(f"{pool}={count}/{count}" for pool, count in pages.items())
        assert {v.POOL_SHORT in call.attributes for call in calls} == {False}
    if name == "draft" and not DRAFT_IS_SIDE_POOL:
        assert not spans(played, name, v.PREFETCH_POOLS)
        return
    (found,) = spans(played, name, v.PREFETCH_POOLS)
    assert found.attributes[v.POOL_PAGES] == [f"{pool}={PAGES}" for pool in ("kv", *pages)]
    assert v.POOL_SHORT not in found.attributes


@pytest.mark.parametrize("name", SHORT)
def test_the_pool_that_shortens_the_prefix_is_named(played: tuple[dict[str, dict[str, Any]], Recording], name: str) -> None:
    """One object of a side pool gone: the KV pages are all there, and the pool that reaches least far is told."""
    told, (pages, each, short) = played[0][name], SHORT[name]
    assert len(told["removed"]) == 1
    (found,) = spans(played, name, v.PREFETCH_POOLS)
    assert (found.attributes[v.FOUND_PAGES], found.attributes[v.POOL_SHORT]) == (pages, short)
    assert set(each) <= set(found.attributes[v.POOL_PAGES])
    (lookup,) = spans(played, name, v.PREFETCH_LOOKUP)
    assert lookup.attributes[v.HIT_TOKENS] == pages * told["page"] == told["found"]


@pytest.mark.parametrize("name", FORETOLD)
def test_probe_keys_foretells_what_the_pool_then_reads(played: tuple[dict[str, dict[str, Any]], Recording], name: str) -> None:
    """One object of a page gone from what SGLang's own pool and store class wrote: hit, gap and what lies behind are told before it reads."""
    told, page = played[0][name], FORETOLD[name]
    probed, (key,) = told["probed"], told["removed"]
    assert probed["first_gap"] == {"page": page, "key": key, "code": None}, probed
    assert (probed["contiguous_pages"], probed["unreachable_pages"]) == (page, PAGES - page - 1)
    assert told["found"] == page * told["page"]
    ours = [each["key"] for each_page in probed["pages"] for each in each_page["objects"]]
    assert sorted(ours) == told["keys"]


def test_a_rank_that_has_what_others_write_writes_nothing(played: tuple[dict[str, dict[str, Any]], Recording]) -> None:
    """Rank 1 of a model whose KV is the same on all ranks: the operation is told as skipped, and the store stays empty."""
    told = played[0][SKIPS]
    assert (told["skip"], told["keys"], told["completed"]) == (True, [], 0)
    (asked,) = spans(played, SKIPS, v.WRITE_ENQUEUE)
    assert asked.attributes[v.BACKUP_SKIP] is True
    assert not spans(played, SKIPS, v.STORE_PUT)


def objects(span: Span) -> list[str]:
    """The objects of a call: what stands in front, the page keys, and each of the suffixes that a page has."""
    call = batch(span)
    return [f"{call.prefix}{page.page_key}{suffix}" for page in call.pages for suffix in (*page.good, *page.bad)]


def test_every_point_of_side_pools_is_called_and_none_fails(played: tuple[dict[str, dict[str, Any]], Recording]) -> None:
    """The rows of this layer, over all layouts; the plugin comes after the classes were imported, and finds them all the same."""
    ledgers = played[1].ledgers.values()
    called = {point.id for ledger in ledgers for point in ledger.points if point.calls}
    assert {"pools.write", "pools.find", "pools.read"} <= called
    assert {point for ledger in ledgers for point in (*ledger.faulty, *ledger.ids("changed"))} == set()


def test_a_pool_that_is_registered_and_never_written_is_named(played: tuple[dict[str, dict[str, Any]], Recording], run: Path) -> None:
    """KV pages were written, of the pool of linear attention not one: W14 names it, for that engine alone."""
    pid = played[0][UNWRITTEN]["pid"]
    found = [each for each in diagnose(read([run])).findings if each.code == "HC-W14"]  # no scheduler is in this recording: `explain` wants one
    assert [(each.args["pool"], each.args["code"], [engine.split(":")[1] for engine in each.engines]) for each in found] == [("mamba", "never put", [str(pid)])]


def test_group_ids_are_given_where_the_store_knows_them(played: tuple[dict[str, dict[str, Any]], Recording]) -> None:
    """Asked for in the settings: every object of a page has its page's group where Mooncake has groups, and a plain put else; both are told."""
    (opened,) = spans(played, GROUPED, v.BACKEND_OPEN)
    assert (opened.attributes[v.GROUP_ASKED], opened.attributes[v.GROUP_SUPPORTED]) == (True, NEWEST)
    expected = sorted(f"sglang-hicache:{shape().prefix}{page}" for page in played[0][GROUPED]["hashes"] for _ in ("k", "v"))
    assert played[0][GROUPED]["groups"] == (expected if NEWEST else [])
    assert played[0]["mha"]["groups"] == []


@pytest.mark.skipif(not NEWEST, reason="on 0.5.14 a rank that does not write KV writes nothing of its side pools either")
def test_a_rank_writes_what_is_its_own_beside_what_others_write(played: tuple[dict[str, dict[str, Any]], Recording]) -> None:
    """KV that all ranks share is left to rank 0; the state of linear attention, of which each rank has a part, is written."""
    told = played[0]["mamba_rank_1"]
    assert (told["skip"], {key[-1 - len(suffix) :] for key in told["keys"] for suffix in ("1_temporal",) if key.endswith(suffix)}) == (True, {"_1_temporal"})
    assert not any(key.endswith("__k") for key in told["keys"])
    (operation,) = spans(played, "mamba_rank_1", v.WRITE_STORE)
    assert operation.attributes[v.REASON] == "W11"
    assert [each for call in spans(played, "mamba_rank_1", v.WRITE_POOLS) for each in call.attributes[v.POOL_PAGES]] == ["mamba=1/1"]
