"""What the engine asks of the device beside copies."""

import functools
import os
from collections.abc import Callable
from typing import Any


def pinned_nothing(*_: Any, **__: Any) -> None:
    """Pins or unpins no memory: there is no device that would read it."""


def cpu_where_cuda(original: Any) -> Any:
    """`torch.cpu`, whose streams and events do nothing, where ORIGINAL is `torch.cuda`; a CUDA build of torch names that one even without a GPU."""
    import torch  # noqa: PLC0415 - the module that is being patched has imported it

    return torch.cpu if original is torch.cuda else original


def without_nccl(original: Callable[..., None]) -> Callable[..., None]:
    """ORIGINAL constructor of a process group's coordinator, made without what only talks between GPUs; gloo does the work."""

    @functools.wraps(original)
    def constructed(*args: Any, **kwargs: Any) -> None:
        original(*args, **{**kwargs, "use_pynccl": False, "use_custom_allreduce": False})

    return constructed


def one_core_a_rank(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """ORIGINAL binding of a rank's threads, told one core a rank where the machine has fewer NUMA nodes than there are ranks.

    Without a setting of the user, upstream wants a NUMA node for each rank (`ModelRunner.init_threads_binding`).
    """

    @functools.wraps(original)
    def bound(runner: Any) -> None:
        _bind(runner.tp_size)
        original(runner)

    return bound


def one_core_a_world_rank(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same for 0.5.23, where binding is a function of how many ranks there are (`utils/numa_utils.py`, init_threads_binding)."""

    @functools.wraps(original)
    def bound(*, numa_index: int, world_size: int) -> Any:
        _bind(world_size)
        return original(numa_index=numa_index, world_size=world_size)

    return bound


def _bind(ranks: int) -> None:
    if "SGLANG_CPU_OMP_THREADS_BIND" not in os.environ and ranks > 1:
        cores = sorted(os.sched_getaffinity(0))
        os.environ["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(str(cores[rank % len(cores)]) for rank in range(ranks))
