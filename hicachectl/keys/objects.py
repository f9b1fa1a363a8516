"""Object keys from page keys: every object that one page has in the store, over all ranks, stages and pools.

Source: `MooncakeStore` in mooncake_store.py: `__init__` for the ranks' texts, `_tag_keys` for what stands in front,
`batch_exists` and `_get_hybrid_page_component_keys` for the rest; mooncake_direct_linker.py (`_storage_suffix`) for the linker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hicachectl.keys.pools import KV, Kind, Part, Policy, PoolUse
from hicachectl.keys.shape import Shape


@dataclass(frozen=True, slots=True)
class Slot:
    """One object of every page: its key is the shape's prefix, the page key, and `suffix`.

    `part` is `k`, `v` or the pool's name, `component` what of the pool it is. Data that ranks share are told under the rank
    that writes them. `heads` is the number of the heads' share, where a rank splits its heads, and otherwise None.
    """

    suffix: str
    tp_rank: int
    pp_rank: int
    part: str
    component: str = ""
    pool: str = ""
    policy: Policy = Policy.all_pages
    cp_rank: int = 0
    heads: int | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """All objects of a page, and for each rank of the engine the indices of those that it asks for."""

    prefix: str
    slots: tuple[Slot, ...]
    ranks: tuple[tuple[int, ...], ...]

    def keys(self, page_key: str) -> list[str]:
        """The keys of one page's objects, in the order of `slots`."""
        return [f"{self.prefix}{page_key}{slot.suffix}" for slot in self.slots]


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank of the engine, and how it stands in keys: a text for each share of its heads, and one for what ranks share."""

    tp_rank: int
    pp_rank: int
    cp_rank: int
    mha: tuple[str, ...]
    mla: str


@lru_cache(maxsize=256)
def layout(shape: Shape) -> Layout:
    """The objects of every page under SHAPE: rank by rank, K and V first, then the pools in their order, what ranks share once."""
    found: dict[str, Slot] = {}
    ranks = []
    for rank in _ranks(shape):
        own = list(_slots(shape, rank))
        for slot in own:
            found.setdefault(slot.suffix, slot)
        ranks.append([slot.suffix for slot in own])
    places = {suffix: index for index, suffix in enumerate(found)}
    return Layout(shape.prefix, tuple(found.values()), tuple(tuple(places[suffix] for suffix in own) for own in ranks))


def _ranks(shape: Shape) -> Iterator[_Rank]:
    # Only the linker and shards of decode context parallelism have the context-parallel rank in their keys.
    cp_ranks = shape.cp_size if shape.linker or shape.dcp_size > 1 else 1
    for pp_rank in range(shape.pp_size):
        for tp_rank in range(shape.tp_size):
            for cp_rank in range(cp_ranks):
                yield _rank(shape, tp_rank, pp_rank, cp_rank)


def _rank(shape: Shape, tp_rank: int, pp_rank: int, cp_rank: int) -> _Rank:
    if shape.linker:
        shared = f"cp{cp_rank}_pp{pp_rank}"
        text = shared if shape.kind is Kind.mla else f"tp{tp_rank}_{shared}"
        return _Rank(tp_rank, pp_rank, cp_rank, (text,), text)
    stage = f"_{pp_rank}" if shape.pp_size > 1 else ""
    first = tp_rank * shape.split_factor
    mha = tuple(f"{first + share}{stage}" for share in range(shape.split_factor))
    mla = f"dcp{tp_rank % shape.dcp_size}_cp{cp_rank}{stage}" if shape.dcp_size > 1 else stage[1:]
    return _Rank(tp_rank, pp_rank, cp_rank, mha, mla)


def _slots(shape: Shape, rank: _Rank) -> Iterator[Slot]:
    """The objects that one rank asks for of each page."""
    if shape.has_kv:
        for share, text in enumerate(rank.mha):
            for part in _linked("k") if shape.linker else KV[shape.kind]:
                if part.ranks is Kind.mha or share == 0:
                    yield _own(shape, rank, part, text, share)
    for use in shape.pools:
        for part in _linked(use.name if use.name != "kv" else "k") if shape.linker else use.parts(shape.kind):
            yield _of_pool(shape, rank, part, use)


def _linked(name: str) -> tuple[Part, ...]:
    """The linker packs a page's data of one pool into one object."""
    return (Part(Kind.mla, f"_{name}", "k" if name == "k" else ""),)


def _own(shape: Shape, rank: _Rank, part: Part, text: str, share: int) -> Slot:
    split = shape.split_factor > 1
    return Slot(
        suffix=f"_{text if part.ranks is Kind.mha else rank.mla}{part.suffix}",
        tp_rank=rank.tp_rank,
        pp_rank=rank.pp_rank,
        part=part.component,
        cp_rank=rank.cp_rank,
        heads=rank.tp_rank * shape.split_factor + share if split else None,
        shared=_shared(shape, part),
    )


def _of_pool(shape: Shape, rank: _Rank, part: Part, use: PoolUse) -> Slot:
    # A rank that splits its heads keeps its texts in a list, and SGLang writes that list into the keys of side pools.
    own = rank.mha[0] if len(rank.mha) == 1 else str(list(rank.mha))
    return Slot(
        suffix=f"_{own if part.ranks is Kind.mha else rank.mla}{part.suffix}",
        tp_rank=rank.tp_rank,
        pp_rank=rank.pp_rank,
        part=use.name,
        component=part.component,
        pool=use.name,
        policy=use.row.policy,
        cp_rank=rank.cp_rank,
        shared=_shared(shape, part),
    )


def _shared(shape: Shape, part: Part) -> bool:
    return part.ranks is Kind.mla and not (shape.linker and shape.kind is Kind.mha)
