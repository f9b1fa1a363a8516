"""The table: which name of which module gives way to what, in which SGLang."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hicachectl.lab.stand_ins import copies, device
from hicachectl.release import Release

ALWAYS = Release.of("0")
NEVER = Release.of("999")


@dataclass(frozen=True, slots=True)
class Row:
    """One replaced name, from version SINCE until before version UNTIL.

    `make` turns what the name holds (None where the module lacks it, as it does on a machine without a GPU) into what it shall hold.
    """

    since: Release
    until: Release
    module: str
    name: str
    make: Callable[[Any], Any]


def _instead(stand_in: Any) -> Callable[[Any], Any]:
    return lambda _: stand_in


_SPLIT = Release.of("0.5.15")
"""From here on each kind of pool has a module of its own; 0.5.14 does not, 0.5.23 does, what lies between was not looked at."""
_CACHE = "sglang.srt.mem_cache"
_COPIES = (
    copies.transfer_kv_all_layer_direct_lf_pf,
    copies.transfer_kv_per_layer_direct_pf_lf,
    copies.transfer_kv_direct,
)
_COPYING: tuple[tuple[Release, Release, str, tuple[Callable[..., Any], ...]], ...] = (
    (ALWAYS, NEVER, "memory_pool_host", _COPIES),
    (_SPLIT, NEVER, "pool_host.mha", _COPIES),
    (_SPLIT, NEVER, "pool_host.mla", _COPIES),
    (_SPLIT, NEVER, "pool_host.mamba", _COPIES),
    (_SPLIT, NEVER, "pool_host.dsa", _COPIES),
    (_SPLIT, NEVER, "pool_host.unified", (copies.transfer_kv_direct,)),
)
_PINNING = ("_cuda_host_register", "_cuda_host_unregister")
_STREAMING: tuple[tuple[Release, Release, str], ...] = (
    (ALWAYS, NEVER, "sglang.srt.managers.cache_controller"),
    (ALWAYS, _SPLIT, f"{_CACHE}.hybrid_cache.hybrid_cache_controller"),
    (_SPLIT, NEVER, f"{_CACHE}.l2_transfer"),
)
_KERNELS_REFUSE = Release.of("0.5.15")

ROWS: tuple[Row, ...] = (
    *(
        Row(since, until, f"{_CACHE}.{pool}", copy.__name__, _instead(copy))
        for since, until, pool, its_copies in _COPYING
        for copy in its_copies
    ),
    *(Row(ALWAYS, NEVER, f"{_CACHE}.pool_host.common", name, _instead(device.pinned_nothing)) for name in _PINNING),
    *(Row(since, until, module, "device_module", device.cpu_where_cuda) for since, until, module in _STREAMING),
    Row(ALWAYS, NEVER, "sglang.srt.distributed.parallel_state", "GroupCoordinator.__init__", device.without_nccl),
    Row(
        ALWAYS,
        _SPLIT,
        "sglang.srt.model_executor.model_runner",
        "ModelRunner.init_threads_binding",
        device.one_core_a_rank,
    ),
    Row(_SPLIT, NEVER, "sglang.srt.utils.numa_utils", "init_threads_binding", device.one_core_a_world_rank),
)


def for_version(version: str) -> tuple[Row, ...]:
    """The rows of SGLang VERSION (`0.5.14`, `0.5.14.post1`)."""
    release = Release.of(version)
    return tuple(row for row in ROWS if row.since <= release < row.until)


def kernels_refuse(version: str) -> bool:
    """Whether the `sgl_kernel` of SGLang VERSION wants libcuda.so.1 to be imported; that of 0.5.14 does not, that of 0.5.23 does."""
    return Release.of(version) >= _KERNELS_REFUSE
