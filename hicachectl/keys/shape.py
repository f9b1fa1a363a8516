"""The shape of an engine, as far as the keys of its objects depend on it."""

from dataclasses import dataclass, replace
from typing import Any

from hicachectl.exits import UsageError
from hicachectl.keys.pools import Kind, PoolUse
from hicachectl.keys.scheme import Scheme, scheme_of

MOST = {"page_size": 1 << 20, "tp_size": 1024, "pp_size": 1024, "tp_lcm_size": 1024, "dcp_size": 1024, "cp_size": 1024}
MOST_RANKS = 4096
"""Beyond what any engine has; a slip of the keyboard must not name objects until the memory is full."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What names an engine's objects; UsageError for a combination that SGLang refuses or does not have.

    `tp_size` counts the ranks that share attention (under attention data parallelism fewer than all), `page_size` the
    tokens of a page of the tree. `tp_lcm_size` counts only where the host layout is `page_head`. `tag` is
    `extra_backend_tag`; `format_tag` the host pool's storage format, which 0.5.22 and later add to the model's name.
    """

    sglang: str = "0.5.14"
    page_size: int = 64
    kind: Kind = Kind.mha
    tp_size: int = 1
    pp_size: int = 1
    tp_lcm_size: int | None = None
    dcp_size: int = 1
    cp_size: int = 1
    tag: str | None = None
    model_name: str | None = None
    format_tag: str | None = None
    bigram: bool = False
    extra_key: str | None = None
    cache_salt: str | None = None
    pools: tuple[PoolUse, ...] = ()
    linker: bool = False

    def __post_init__(self) -> None:
        """Refuse what no engine can be."""
        scheme = scheme_of(self.sglang)
        for name, most in MOST.items():
            size = getattr(self, name)
            if size is not None and not 1 <= size <= most:
                raise UsageError(f"{name} must be from 1 to {most}, not {size}")
        if (ranks := self.tp_size * self.pp_size * self.cp_size) > MOST_RANKS:
            raise UsageError(f"{ranks} ranks (tp, pp and cp together) are more than any engine has: {MOST_RANKS} at most")
        if self.tp_lcm_size is not None and self.tp_lcm_size % self.tp_size:
            raise UsageError(
                f"tp_lcm_size {self.tp_lcm_size} is no multiple of tp_size {self.tp_size}: SGLang refuses it"
            )
        if self.linker and not scheme.direct_linker:
            raise UsageError(f"the keys of the direct linker are known since SGLang 0.5.23, not for {self.sglang}")
        if self.linker and self.dcp_size > 1:
            raise UsageError("the direct linker has no keys for decode context parallelism")
        if len({use.name for use in self.pools}) != len(self.pools):
            raise UsageError("a pool is named twice")
        if self.dcp_size > 1:
            self._check_dcp(scheme)

    def _check_dcp(self, scheme: Scheme) -> None:
        """The conditions of `HiCacheStorageConfig.__post_init__` (hicache_storage.py)."""
        if not scheme.dcp:
            raise UsageError(
                f"decode context parallelism has keys of its own since SGLang 0.5.23, not in {self.sglang}"
            )
        if self.kind is not Kind.mla:
            raise UsageError("decode context parallelism needs kind mla")
        if self.tp_size % self.dcp_size or self.page_size % self.dcp_size:
            raise UsageError(
                f"tp_size {self.tp_size} and page_size {self.page_size} must be multiples of dcp_size {self.dcp_size}"
            )

    @property
    def scheme(self) -> Scheme:
        """The key rules of this SGLang release."""
        return scheme_of(self.sglang)

    @property
    def split_factor(self) -> int:
        """Into how many heads' shards a rank splits its pages; 1 where it does not (cache_controller.py, `_generate_storage_config`)."""
        if self.kind is Kind.mla or self.tp_lcm_size is None or self.linker:
            return 1
        return self.tp_lcm_size // self.tp_size

    @property
    def has_kv(self) -> bool:
        """Whether a page has K and V objects of its own: not where pools of DeepSeek V4 hold the data."""
        return not any(use.row.replaces_kv for use in self.pools)

    @property
    def prefix(self) -> str:
        """What stands before the page key, underscore included; empty where there is nothing."""
        if not self.scheme.model_prefix:
            return "" if self.tag is None else f"{self.tag}_"
        parts = [] if self.tag is None else [self.tag]
        if name := self.storage_model_name:
            parts.append(name.replace("/", "-"))
        if self.dcp_size > 1:
            parts.append(f"tp{self.tp_size}_dcp{self.dcp_size}_page{self.page_size}_pp{self.pp_size}_cp{self.cp_size}")
        return "_".join(parts) + "_" if parts else ""

    @property
    def storage_model_name(self) -> str:
        """The model's name as the store's keys have it, slashes still in it (cache_controller.py, `storage_model_name`)."""
        if self.format_tag is None:
            return self.model_name or ""
        return f"{self.model_name}-{self.format_tag}" if self.model_name else self.format_tag

    def but(self, **changes: Any) -> "Shape":
        """The same shape with CHANGES."""
        return replace(self, **changes)
