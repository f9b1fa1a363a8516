"""The algebra of keys against the installed SGLang's own functions, on random tokens and every layout."""

import importlib
import importlib.metadata
from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hicachectl.exits import BadInputError
from hicachectl.keys.decode import decode
from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import POOLS, Kind, Policy, PoolUse
from hicachectl.keys.presence import Presence
from hicachectl.keys.shape import Shape
from hicachectl.release import Release

pytestmark = pytest.mark.real

torch = pytest.importorskip("torch")
mooncake_store = pytest.importorskip("sglang.srt.mem_cache.storage.mooncake_store.mooncake_store")
radix_cache = pytest.importorskip("sglang.srt.mem_cache.radix_cache")
hicache_storage = pytest.importorskip("sglang.srt.mem_cache.hicache_storage")
utils = pytest.importorskip("sglang.srt.mem_cache.utils")

SGLANG = importlib.metadata.version("sglang")
NEWER = Release.of(SGLANG) >= Release.of("0.5.23")
mha_host, mla_host = (
    importlib.import_module(f"sglang.srt.mem_cache.{f'pool_host.{name}' if NEWER else 'memory_pool_host'}")
    for name in ("mha", "mla")
)
THOUSANDS = settings(max_examples=3000, deadline=None)

NAMES = st.text("abcXYZ019-_./", max_size=12)
TOKENS = st.lists(st.integers(0, (1 << 32) - 1), max_size=80)
WIDE_TOKENS = st.lists(st.one_of(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 63) - 1)), max_size=40)
NAMESPACES = st.one_of(st.none(), st.text(max_size=6))


class Store:
    """A store that holds a set of keys: what SGLang's backend asks of the binding at start and in a look-up, and no more."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def setup(self, *_: Any, **__: Any) -> int:
        """Succeed."""
        return 0

    def put(self, key: str, value: bytes) -> int:
        """Hold VALUE."""
        self.held[key] = value
        return 0

    def get(self, key: str) -> bytes:
        """Give what is held."""
        return self.held[key]

    def is_exist(self, key: str) -> int:
        """Say 1 for what is held."""
        return int(key in self.held)

    def batch_is_exist(self, keys: list[str]) -> list[int]:
        """Say 1 for each that is held."""
        return [int(key in self.held) for key in keys]


@pytest.fixture(autouse=True, scope="module")
def _a_store_in_memory() -> Any:
    """SGLang's backend gets our store where it would load the binding."""
    original = mooncake_store.MooncakeBaseStore._import_mooncake_store
    mooncake_store.MooncakeBaseStore._import_mooncake_store = lambda _: Store
    yield
    mooncake_store.MooncakeBaseStore._import_mooncake_store = original


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Every layout that this SGLang release has."""
    kind = draw(st.sampled_from(Kind))
    tp_size, pp_size = draw(st.sampled_from([1, 2, 3, 4])), draw(st.sampled_from([1, 2, 3]))
    dcp_size = draw(st.sampled_from([1, 2])) if NEWER and kind is Kind.mla and tp_size % 2 == 0 else 1
    rows = [row for row in POOLS if row.name != "kv" and Release.of(row.since) <= Release.of(SGLANG)]
    chosen = draw(st.lists(st.sampled_from(rows), max_size=4, unique_by=lambda row: row.name))
    uses = []
    for row in chosen:
        convs, temporal = draw(st.integers(0, 3)), not NEWER or draw(st.booleans())
        own = draw(st.sampled_from([None, *Kind])) if row.own_layout else None
        uses.append(PoolUse(row, layout=own, convs=max(convs, int(not temporal)), temporal=temporal))
    return Shape(
        sglang=SGLANG,
        page_size=draw(st.sampled_from([2, 4, 64])),
        kind=kind,
        tp_size=tp_size,
        pp_size=pp_size,
        tp_lcm_size=draw(st.sampled_from([None, tp_size, 2 * tp_size, 4 * tp_size])),
        dcp_size=dcp_size,
        cp_size=draw(st.sampled_from([1, 2])),
        tag=draw(st.one_of(st.none(), NAMES)),
        model_name=draw(st.one_of(st.none(), NAMES)),
        pools=tuple(uses),
    )


def backend(shape: Shape, tp_rank: int, pp_rank: int, cp_rank: int) -> Any:
    """SGLang's own backend of one rank, as its constructor leaves it, with host pools of this shape."""
    config = hicache_storage.HiCacheStorageConfig(
        tp_rank=tp_rank,
        tp_size=shape.tp_size,
        pp_rank=pp_rank,
        pp_size=shape.pp_size,
        attn_cp_rank=cp_rank,
        attn_cp_size=shape.cp_size,
        is_mla_model=shape.kind is Kind.mla,
        enable_storage_metrics=False,
        is_page_first_layout=False,
        model_name=shape.model_name,
        tp_lcm_size=shape.tp_lcm_size,
        # The condition of `_generate_storage_config`, under the host layout page_head.
        should_split_heads=bool(shape.kind is Kind.mha and shape.tp_lcm_size and shape.tp_lcm_size > shape.tp_size),
        extra_config={"master_server_address": "a:1"} | ({} if shape.tag is None else {"extra_backend_tag": shape.tag}),
        **(
            {"dcp_size": shape.dcp_size, "dcp_rank": tp_rank % shape.dcp_size, "logical_page_size": shape.page_size}
            if NEWER
            else {}
        ),
    )
    store = mooncake_store.MooncakeStore(config)
    store.mem_pool_host = host_pool(shape)
    store.registered_pools = {hicache_storage.PoolName(use.name): side_pool(use, shape) for use in shape.pools}
    return store


def host_pool(shape: Shape) -> Any:
    """A host pool that has a buffer for each object of a page; none where the pools of DeepSeek V4 hold the data."""

    def of(indices: Any, factor: int = 1) -> Any:
        count = len(indices) // shape.page_size * factor * (1 if shape.kind is Kind.mla else 2)
        return [0] * count, [1] * count

    return SimpleNamespace(
        page_size=shape.page_size,
        kv_buffer=object() if shape.has_kv else None,
        get_page_buffer_meta=of,
        get_split_heads_page_buffer_meta=of,
    )


def side_pool(use: PoolUse, shape: Shape) -> Any:
    """A host pool of the class, and with the attributes, that SGLang tells its layout by."""
    kind = use.layout or shape.kind
    if use.row.own_layout:
        host = mla_host.MLATokenToKVPoolHost if kind is Kind.mla else mha_host.MHATokenToKVPoolHost
        return host.__new__(host)
    if use.name == "mamba":
        return SimpleNamespace(conv_buffer=[None] * use.convs, temporal_state_elem_size=int(use.temporal))
    return SimpleNamespace(v_buffer=object()) if kind is Kind.mha else SimpleNamespace()


def ranks(shape: Shape) -> list[tuple[int, int, int]]:
    """The ranks of an engine, in the order of `Layout.ranks`."""
    cp_ranks = shape.cp_size if shape.dcp_size > 1 else 1
    return [(tp, pp, cp) for pp in range(shape.pp_size) for tp in range(shape.tp_size) for cp in range(cp_ranks)]


def their_keys(store: Any, shape: Shape, hashes: list[str]) -> list[list[str]]:
    """The keys of each page by SGLang's own functions: the page's own as `batch_set_v1` makes them, then pool by pool."""
    found: list[list[str]] = [[] for _ in hashes]
    groups = []
    if shape.has_kv:
        groups.append(store._batch_preprocess(store._tag_keys(hashes), list(range(len(hashes) * shape.page_size)))[0])
    for use in shape.pools:
        transfer = hicache_storage.PoolTransfer(name=hicache_storage.PoolName(use.name))
        groups.append(store._tag_keys(store._get_hybrid_page_component_keys(hashes, transfer)[0]))
    for keys in groups:
        size = len(keys) // len(hashes)
        for page in range(len(hashes)):
            found[page] += keys[page * size : (page + 1) * size]
    return found


@given(TOKENS, st.integers(1, 9))
@THOUSANDS
def test_page_keys_of_tokens(tokens: list[int], page_size: int) -> None:
    """A chain of SGLang's `get_hash_str`, page by page, is ours."""
    expected, prior = [], None
    for start in range(0, len(tokens) // page_size * page_size, page_size):
        prior = utils.get_hash_str(tokens[start : start + page_size], prior)
        expected.append(prior)
    assert page_keys(tokens, page_size, sglang=SGLANG) == expected


@given(TOKENS, st.integers(1, 9), st.booleans(), st.sampled_from("qI"))
@THOUSANDS
def test_page_keys_of_a_tree_node(tokens: list[int], page_size: int, bigram: bool, typecode: str) -> None:
    """What SGLang's tree computes for a node at the root, with and without pairs of tokens, is ours."""
    key = radix_cache.RadixKey(array(typecode, tokens), is_bigram=bigram)
    count = len(key) // page_size
    if NEWER:
        expected = utils.get_storage_hash_str(key, page_size=page_size)[:count]
    else:
        expected = []
        for page in range(count):
            expected.append(key.hash_page(page * page_size, (page + 1) * page_size, expected[-1] if expected else None))
    assert page_keys(tokens, page_size, sglang=SGLANG, bigram=bigram) == expected


@given(WIDE_TOKENS, st.integers(1, 5), st.booleans(), NAMESPACES, NAMESPACES)
@THOUSANDS
def test_wide_tokens_and_namespaces(
    tokens: list[int], page_size: int, bigram: bool, extra_key: str | None, cache_salt: str | None
) -> None:
    """Tokens of 2**32 and more, extra_key and cache_salt count as they do in SGLang's own hash, or both refuse."""
    own = {"cache_salt": cache_salt} if NEWER else {}
    key = radix_cache.RadixKey(array("q", tokens), extra_key=extra_key, is_bigram=bigram, **own)
    key = key[: len(key) // page_size * page_size]
    try:
        if NEWER:
            expected = utils.get_storage_hash_str(key, page_size=page_size) if len(key) else []
        else:
            node = SimpleNamespace(key=key, parent=None)
            expected = utils.compute_node_hash_values(node, page_size)
    except OverflowError:
        expected = None
    try:
        ours = page_keys(tokens, page_size, sglang=SGLANG, bigram=bigram, extra_key=extra_key, cache_salt=cache_salt)
    except BadInputError:
        ours = None
    assert ours == expected


@given(shapes(), st.integers(1, 3))
@THOUSANDS
def test_object_keys_of_every_layout(shape: Shape, pages: int) -> None:
    """For every rank of every layout, the keys of each page are SGLang's own, in SGLang's order."""
    hashes = page_keys(range(pages * shape.page_size), shape.page_size, sglang=SGLANG)
    laid_out = layout(shape)
    assert len(laid_out.ranks) == len(ranks(shape))
    for own, rank in zip(laid_out.ranks, ranks(shape), strict=True):
        expected = their_keys(backend(shape, *rank), shape, hashes)
        assert [[laid_out.keys(page)[index] for index in own] for page in hashes] == expected


@given(shapes())
@THOUSANDS
def test_every_object_key_is_read_back(shape: Shape) -> None:
    """Among the readings of a key is what it was made from: page, part, stage, rank or shares, prefix."""
    page = "0123456789abcdef" * 4
    laid_out = layout(shape)
    for key, slot in zip(laid_out.keys(page), laid_out.slots, strict=True):
        decoded = decode(key)
        assert (decoded.what, decoded.page_key) == ("object", page)
        assert decoded.prefix == (shape.prefix[:-1] if shape.prefix else None)
        stage = slot.pp_rank if shape.pp_size > 1 else None
        fitting = [
            each
            for each in decoded.readings
            if (each.part, each.component, each.pp_rank) == (slot.part, slot.component, stage)
        ]
        if slot.shared:
            assert any(not each.heads for each in fitting)
        else:
            own = (
                [slot.heads]
                if slot.heads is not None
                else range(slot.tp_rank * shape.split_factor, (slot.tp_rank + 1) * shape.split_factor)
            )
            assert any(each.heads == tuple(own) for each in fitting)


@given(shapes(), st.data())
@THOUSANDS
def test_the_hit_is_the_one_that_sglang_counts(shape: Shape, data: st.DataObject) -> None:
    """With objects missing at random, the contiguous hit is what SGLang's own look-ups agree on over all ranks."""
    pages = data.draw(st.integers(1, 6))
    hashes = page_keys(range(pages * shape.page_size), shape.page_size, sglang=SGLANG)
    laid_out = layout(shape)
    missing = data.draw(
        st.sets(st.tuples(st.integers(0, pages - 1), st.integers(0, len(laid_out.slots) - 1)), max_size=6)
    )
    answers = [[int((page, index) not in missing) for index in range(len(laid_out.slots))] for page in range(pages)]
    windows = {use.name: data.draw(st.integers(1, 3)) for use in shape.pools if use.row.policy is Policy.trailing_pages}
    held = {
        key
        for page, row in zip(hashes, answers, strict=True)
        for key, there in zip(laid_out.keys(page), row, strict=True)
        if there
    }
    assume(len(held) == sum(map(sum, answers)))
    found = []
    for rank in ranks(shape):
        store = backend(shape, *rank)
        store.store.held = dict.fromkeys(held, b"")
        transfers = [
            hicache_storage.PoolTransfer(
                name=hicache_storage.PoolName(use.name),
                keys=[""] * windows.get(use.name, 1),
                hit_policy=hicache_storage.PoolHitPolicy(use.row.policy.value),
            )
            for use in shape.pools
        ]
        found.append(store.batch_exists_v2(hashes, transfers))
    if NEWER:
        expected = max(set.intersection(*(set(each.restorable_prefix_pages) for each in found)), default=0)
    else:
        expected = min(each.kv_hit_pages for each in found)
    assert Presence(shape, hashes, answers, windows).contiguous_pages == expected


@pytest.mark.skipif(not NEWER, reason="the direct linker's keys are known since 0.5.23")
@given(shapes())
@settings(max_examples=1000, deadline=None)
def test_keys_of_the_direct_linker(shape: Shape) -> None:
    """For every rank, the keys under which the engine writes device memory directly are SGLang's own."""
    linker = importlib.import_module("sglang.srt.mem_cache.storage.mooncake_store.mooncake_direct_linker")
    entry = mooncake_store.DevicePoolEntry
    shape = shape.but(
        linker=True, dcp_size=1, tp_lcm_size=None, pools=tuple(use for use in shape.pools if not use.row.replaces_kv)
    )
    hashes = page_keys(range(shape.page_size), shape.page_size, sglang=SGLANG)
    laid_out = layout(shape)
    places = [(tp, pp, cp) for pp in range(shape.pp_size) for tp in range(shape.tp_size) for cp in range(shape.cp_size)]
    for own, (tp_rank, pp_rank, cp_rank) in zip(laid_out.ranks, places, strict=True):
        store = backend(shape, tp_rank, pp_rank, cp_rank)
        store.mla_suffix = store.mha_suffix = linker._storage_suffix(
            rank_replicated=shape.kind is Kind.mla, tp_rank=tp_rank, attn_cp_rank=cp_rank, pp_rank=pp_rank
        )
        names = [hicache_storage.PoolName.KV, *(hicache_storage.PoolName(use.name) for use in shape.pools)]
        store.registered_pools = {name: entry.__new__(entry) for name in names}
        expected = []
        for name in names:
            keys, _ = store._get_hybrid_page_component_keys(hashes, hicache_storage.PoolTransfer(name=name))
            expected += store._tag_keys(keys)
        assert [laid_out.keys(hashes[0])[index] for index in own] == expected
        assert all(any(each.writer == "direct linker" for each in decode(key).readings) for key in expected)
