"""Readers of a scheduler's life: what it was asked to be, and what it became."""

import sys
import time
from typing import Any

from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, bigram, in_force, number, text, told, whole

CONTEXT = "sglang.srt.runtime_context"
"""Module of 0.5.23 and later in which a process says which ranks it has."""
NOT_TAKEN = "layer_first"
"""Layout of the host pool that Mooncake cannot take."""
_bound: list[Any] = []


def bind(spool: Any) -> None:
    """Let readers tell the writer which ranks this process has; the last writer counts."""
    _bound[:] = [spool]


def unbind(spool: Any) -> None:
    """Take the writer back, unless another has come since."""
    if _bound == [spool]:
        _bound.clear()


def _server_args(args: Args, kwargs: Kwargs) -> Any:
    return argument(args, kwargs, 1, "server_args")


def scheduler_begins(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """ENGINE_START: ranks and the settings that were asked for (SGLang `managers/scheduler.py`, Scheduler.__init__)."""
    del state, result, error
    return _begun(_server_args(args, kwargs), argument(args, kwargs, 4, "tp_rank"), argument(args, kwargs, 6, "pp_rank"), argument(args, kwargs, 9, "dp_rank"))


def scheduler_begins_placed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """ENGINE_START from 0.5.23 on: the launcher has published the ranks before the scheduler is built (`runtime_context.py`, publish)."""
    del state, result, error
    find = getattr(sys.modules.get(CONTEXT), "get_parallel", None)
    placed = find() if find is not None else None
    return _begun(_server_args(args, kwargs), told(placed, "tp_rank"), told(placed, "pp_rank"), told(placed, "dp_rank"))


def _begun(asked: Any, tp_rank: Any, pp_rank: Any, dp_rank: Any) -> Any:
    for spool in _bound:
        spool.ranks = {"tp": whole(tp_rank), "pp": whole(pp_rank)}
        spool.ledger.scheduler = True
    return (
        tp_rank,
        in_force(asked, "tp_size"),
        pp_rank,
        in_force(asked, "pp_size"),
        whole(dp_rank),
        text(in_force(asked, "device")),
        text(in_force(asked, "served_model_name")),
        in_force(asked, "page_size"),
        bool(in_force(asked, "enable_hierarchical_cache")),
        text(in_force(asked, "hicache_storage_backend")),
        text(in_force(asked, "hicache_write_policy")),
        text(in_force(asked, "hicache_storage_prefetch_policy")),
        text(in_force(asked, "hicache_mem_layout")),
        text(in_force(asked, "hicache_io_backend")),
        text(in_force(asked, "kv_cache_dtype")),
        text(in_force(asked, "disaggregation_mode")),
        in_force(asked, "enable_unified_cache_external_linker"),
        whole(in_force(asked, "hicache_storage_prefetch_retry_max_attempts")),
    )


def before_settings(args: Args, kwargs: Kwargs) -> Any:
    """The host layout that was asked for, where the backend is one that may not take it (SGLang `server_args.py`, _resolve_storage_layout_compatibility)."""
    asked = argument(args, kwargs, 0, "server_args")
    layout = text(in_force(asked, "hicache_mem_layout"))
    return layout if layout == NOT_TAKEN and in_force(asked, "hicache_storage_backend") else SKIP


def settings_fitted(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """SETTINGS: what was asked for; what is in force the scheduler tells."""
    del args, kwargs, result
    return ("failed" if error is not None else "ok", state, None)


def scheduler_built(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """ENGINE: the settings in force once the scheduler is built, or the failure."""
    del state, result
    scheduler, asked = args[0], _server_args(args, kwargs)
    tree = getattr(scheduler, "tree_cache", None)
    controller = getattr(tree, "cache_controller", None)
    pool = getattr(controller, "mem_pool_device", None)
    dtype = getattr(pool, "store_dtype", None) or getattr(pool, "dtype", None)
    for spool in _bound:
        spool.ledger.tree = type(tree).__name__ if tree is not None else None
    return (
        "failed" if error is not None else "ok",
        type(tree).__name__ if tree is not None else None,
        number(tree, "page_size") or number(scheduler, "page_size"),
        bigram(tree),
        bool(getattr(scheduler, "enable_hicache_storage", False)),
        text(dtype),
        text(in_force(asked, "hicache_mem_layout")),
        text(in_force(asked, "hicache_io_backend")),
        _draft_stored(controller),
        None,
    )


def _draft_stored(controller: Any) -> bool | None:
    """Whether a draft model's KV has a way to the store (0.5.14 `managers/cache_controller.py`, _maybe_register_draft_with_storage)."""
    if not getattr(controller, "has_draft", False) or not getattr(controller, "enable_storage", False) or not hasattr(controller, "draft_page_set_func"):
        return None
    return controller.draft_page_set_func is not None


def parent_ends(args: Args, kwargs: Kwargs) -> Any:
    """The parent is about to end its schedulers in order: note it in its ledger, which the schedulers' readers look at."""
    del args, kwargs
    for spool in _bound:
        spool.ledger.closed = True
        spool.say_end(time.time_ns() // 1_000_000)
