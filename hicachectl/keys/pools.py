"""The pools whose objects lie beside a page's K and V: one row a pool, with the objects that one page has in it.

Source: `MooncakeStore._get_hybrid_page_component_keys` (mooncake_store.py); how many pages a look-up wants of a pool:
`hybrid_cache/hybrid_pool_assembler.py` and the components of the unified tree.
"""

from dataclasses import dataclass
from enum import Enum

from hicachectl.exits import UsageError
from hicachectl.keys.scheme import scheme_of
from hicachectl.release import Release


class Kind(str, Enum):
    """How a pool's data lie over tensor-parallel ranks: each rank its heads, or the same on every rank."""

    mha = "mha"
    mla = "mla"


class Policy(str, Enum):
    """Which pages of a prefix must have objects in the pool."""

    all_pages = "all_pages"
    trailing_pages = "trailing_pages"


MOST_CONVS_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Part:
    """One object of a page in a pool: whose ranks stand in its key, what follows them, and what it holds."""

    ranks: Kind
    suffix: str
    component: str = ""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One pool: its parts where data are split over ranks and where they are not (empty: there is no such pool)."""

    name: str
    since: str
    policy: Policy
    mha: tuple[Part, ...]
    mla: tuple[Part, ...]
    # Whether the pool's layout can differ from the model's (a draft model has its own).
    own_layout: bool = False
    # The model's own K and V are only an index where this pool is in use.
    replaces_kv: bool = False

    def parts(self, kind: Kind) -> tuple[Part, ...]:
        """The parts of one page in this pool."""
        return self.mha if kind is Kind.mha else self.mla


_ALL, _TRAILING = Policy.all_pages, Policy.trailing_pages


def _split(name: str) -> tuple[Part, ...]:
    return (Part(Kind.mha, f"_{name}_k", "k"), Part(Kind.mha, f"_{name}_v", "v"))


def _whole(suffix: str) -> tuple[Part, ...]:
    return (Part(Kind.mla, suffix),)


def _packed(name: str, since: str = "0.5.14", policy: Policy = _ALL, *, replaces_kv: bool = False) -> PoolRow:
    """A pool that packs a page into one object, the same on every rank whatever the model."""
    return PoolRow(name, since, policy, _whole(f"_{name}"), _whole(f"_{name}"), replaces_kv=replaces_kv)


def _deepseek_v4(name: str, since: str = "0.5.14", policy: Policy = _ALL) -> PoolRow:
    return _packed(f"deepseek_v4_{name}", since, policy, replaces_kv=True)


KV: dict[Kind, tuple[Part, ...]] = {
    Kind.mha: (Part(Kind.mha, "_k", "k"), Part(Kind.mha, "_v", "v")),
    Kind.mla: (Part(Kind.mla, "_k", "k"),),
}
"""The page itself; its parts are called by their components."""

POOLS: tuple[PoolRow, ...] = (
    PoolRow("kv", "0.5.19", _ALL, _whole("_k"), _whole("_k")),
    PoolRow(
        "mamba",
        "0.5.14",
        _TRAILING,
        (Part(Kind.mha, "_temporal", "temporal"),),
        (Part(Kind.mha, "_temporal", "temporal"),),
    ),
    PoolRow("swa", "0.5.14", _TRAILING, _split("swa"), _whole("_swa")),
    PoolRow("draft", "0.5.14", _ALL, _split("draft"), (Part(Kind.mla, "_draft_k", "k"),), own_layout=True),
    PoolRow("draft_swa", "0.5.18", _TRAILING, _split("draft_swa"), _whole("_draft_swa"), own_layout=True),
    _packed("draft_indexer", "0.5.18"),
    _packed("indexer"),
    _deepseek_v4("c1", "0.5.21"),
    _deepseek_v4("c1_indexer", "0.5.21"),
    _deepseek_v4("c1_indexer_scale", "0.5.21"),
    _deepseek_v4("c2", "0.5.21"),
    _deepseek_v4("c2_indexer", "0.5.21"),
    _deepseek_v4("c2_indexer_scale", "0.5.21"),
    _deepseek_v4("c4"),
    _deepseek_v4("c4_rope", "0.5.21"),
    _deepseek_v4("c4_indexer"),
    _deepseek_v4("c4_indexer_scale", "0.5.20"),
    _deepseek_v4("c4_state", policy=_TRAILING),
    _deepseek_v4("c4_indexer_state", policy=_TRAILING),
    _deepseek_v4("c128"),
    _deepseek_v4("c128_rope", "0.5.21"),
    _deepseek_v4("c128_state", policy=_TRAILING),
)


@dataclass(frozen=True, slots=True)
class PoolUse:
    """A pool as one engine has it: `layout` None takes the model's; `convs` and `temporal` are for mamba alone."""

    row: PoolRow
    layout: Kind | None = None
    convs: int = 1
    temporal: bool = True

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.row.name

    def parts(self, kind: Kind) -> tuple[Part, ...]:
        """The objects that one page has in this pool, in the order in which SGLang names them."""
        if self.row.name != "mamba":
            return self.row.parts(self.layout or kind)
        states = tuple(Part(Kind.mha, f"_conv_{index}", f"conv_{index}") for index in range(self.convs))
        return (*self.row.mha, *states) if self.temporal else states


def parse(text: str, sglang: str) -> PoolUse:
    """A pool as the command line names it.

    `NAME`, or `NAME:mha` / `NAME:mla` where its layout is not the model's, or `mamba:N` with N convolution states
    (`mamba:N:conv-only` without a temporal state). UsageError for what is no pool of this SGLang release.
    """
    name, *details = text.strip().split(":")
    row = next((each for each in POOLS if each.name == name), None)
    if row is None:
        raise UsageError(f"'{name}' is no pool of SGLang's: known are {', '.join(each.name for each in POOLS)}")
    if Release.of(sglang) < Release.of(row.since):
        raise UsageError(f"SGLang {sglang} has no pool {name}: it came with {row.since}")
    if name == "mamba":
        return _mamba(row, details, sglang)
    if not details:
        return PoolUse(row)
    if len(details) == 1 and details[0] in Kind.__members__ and row.own_layout:
        return PoolUse(row, layout=Kind(details[0]))
    raise UsageError(
        f"'{text}' is no use of the pool {name}: expected {name}"
        + (f", {name}:mha or {name}:mla" if row.own_layout else "")
    )


def _mamba(row: PoolRow, details: list[str], sglang: str) -> PoolUse:
    if not details:
        return PoolUse(row)
    if len(details) > 2 or not details[0].isdecimal() or details[1:] not in ([], ["conv-only"]):
        raise UsageError(
            f"'mamba:{':'.join(details)}' is no use of the pool mamba: expected mamba, mamba:N or mamba:N:conv-only"
        )
    if len(details[0]) > MOST_CONVS_DIGITS:
        raise UsageError(f"'mamba:{':'.join(details)}' has more convolution states than any model")
    use = PoolUse(row, convs=int(details[0]), temporal=len(details) == 1)
    if not use.parts(Kind.mha):
        raise UsageError("the pool mamba needs a temporal state or a convolution state")
    if not use.temporal and not scheme_of(sglang).drops_empty_temporal:
        raise UsageError(
            f"SGLang {sglang} names a temporal object even where the model has none; 0.5.16 and later do not"
        )
    return use
