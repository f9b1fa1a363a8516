"""Readers of the backend's layer: choice, configuration, key scheme, attach and detach."""

import json
from pathlib import Path
from typing import Any

from tracers.point import Args, Kwargs
from tracers.read.take import argument, bigram, number, outcome, text, whole
from tracers.settings import MOONCAKE_VARIABLES, config_file_named, user_set

RDMA_CLASS = Path("/sys/class/infiniband")


def rdma_devices() -> int:
    """RDMA devices that the kernel shows on this host."""
    try:
        return sum(1 for _ in RDMA_CLASS.iterdir())
    except OSError:
        return 0


def in_use(asked: str | None) -> str | None:
    """Transport that can be in use: Mooncake falls back to TCP in silence where rdma is asked for and no device is there."""
    return "tcp" if asked == "rdma" and rdma_devices() == 0 else asked


def created(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BACKEND_CREATE (SGLang `mem_cache/storage/backend_factory.py`, create_backend; a class method)."""
    del state
    config = argument(args, kwargs, 2, "storage_config")
    return (
        outcome(error),
        text(argument(args, kwargs, 1, "backend_name")),
        type(result).__name__ if result is not None else None,
        number(config, "tp_rank"),
        number(config, "tp_size"),
        number(config, "pp_rank"),
        number(config, "pp_size"),
        bool(getattr(config, "is_mla_model", False)),
        bool(getattr(config, "should_split_heads", False)),
        number(config, "tp_lcm_size"),
        text(getattr(config, "model_name", None)),
        None,
    )


def configured(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BACKEND_CONFIG: which source won and what it said (SGLang `mooncake_store.py`, _load_config)."""
    del state
    storage_config = argument(args, kwargs, 1, "storage_config")
    source = _source(getattr(storage_config, "extra_config", None))
    asked = text(getattr(result, "protocol", None))
    standalone = bool(getattr(result, "standalone_storage", False))
    return (
        outcome(error),
        source,
        _ignored(result) if source != "env" and result is not None else None,
        text(getattr(result, "master_server_address", None)),
        number(result, "master_metrics_port"),
        text(getattr(result, "metadata_server", None)),
        asked,
        # A client process of its own has the transport then, and this one does not see which.
        None if standalone else in_use(asked),
        rdma_devices(),
        text(getattr(result, "device_name", None)),
        number(result, "global_segment_size"),
        text(getattr(result, "local_hostname", None)),
        standalone,
        text(getattr(result, "tenant_id", None)),
        None,
    )


def _source(extra: Any) -> str:
    """The rule of `MooncakeBaseStore._load_config`: extra_config, else a file, else the environment."""
    if extra and (extra.get("master_server_address") is not None or extra.get("client_server_address") is not None):
        return "extra_config"
    return "file" if config_file_named() else "env"


def _ignored(config: Any) -> list[str] | None:
    lost = []
    for name, given in user_set().items():
        used = getattr(config, MOONCAKE_VARIABLES[name], None)
        if used is not None and str(used) != given and not _same_size(used, given):
            lost.append(f"{name}={given} (in use: {used})")
    return lost or None


def _same_size(used: Any, given: str) -> bool:
    """Whether a size given as `4gb` is the number in use (SGLang `_parse_global_segment_size`)."""
    units = {"gb": 1 << 30, "g": 1 << 30, "mb": 1 << 20, "m": 1 << 20, "kb": 1 << 10, "k": 1 << 10, "b": 1}
    low = given.strip().lower()
    for unit, factor in units.items():
        if low.endswith(unit):
            try:
                return bool(float(low[: -len(unit)]) * factor == used)
            except (ValueError, TypeError):
                return False
    return False


def opened(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BACKEND_OPEN: key scheme, engine sharing, group semantics (SGLang `mooncake_store.py`, MooncakeStore.__init__)."""
    del state, result
    store = args[0]
    shared = getattr(store, "_shared_mooncake_transfer_engine", None)
    config = getattr(store, "config", None)
    extra = getattr(argument(args, kwargs, 1, "storage_config"), "extra_config", None)
    tag = extra.get("extra_backend_tag") if isinstance(extra, dict) else None
    # From 0.5.23 on the tag is a part of config_prefix; before, it is all of the prefix.
    prefix = getattr(store, "config_prefix", getattr(store, "extra_backend_tag", None))
    return (
        outcome(error),
        text(tag),
        None if prefix is None else f"{prefix}_",
        _suffixes(store),
        getattr(store, "enable_group_semantics", None),
        getattr(store, "_supports_group_ids", None),
        shared is not None,
        _device_name(shared),
        _reused(shared, config),
        text(getattr(config, "protocol", None)),
        None,
    )


def _suffixes(store: Any) -> list[str] | None:
    """Suffixes of a page's KV objects (SGLang `mooncake_store.py`, _get_mha_buffer_meta and its siblings)."""
    if getattr(store, "is_mla_backend", None) is None:
        return None
    if store.is_mla_backend:
        return [f"_{getattr(store, 'mla_suffix', '')}_k"]
    suffix = getattr(store, "mha_suffix", "")
    return [f"_{each}_{part}" for each in (suffix if isinstance(suffix, list) else [suffix]) for part in ("k", "v")]


def _engine_device(shared: Any) -> str | None:
    """Device that SGLang's own Transfer Engine was made for."""
    return text(getattr(shared, "get_ib_device", lambda: None)())


def _device_name(shared: Any) -> str | None:
    device = _engine_device(shared)
    return None if shared is None else ("(none)" if device is None else device)


def _reused(shared: Any, config: Any) -> bool:
    """The four conditions under which SGLang hands its own Transfer Engine to the store."""
    if shared is None or config is None:
        return False
    return bool(getattr(config, "device_name", "") == _engine_device(shared) and config.metadata_server == "P2PHANDSHAKE" and config.protocol == "rdma")


def plain(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """Outcome alone, and the exception's text."""
    del args, kwargs, state, result
    return (outcome(error), None)


def attached(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BACKEND_ATTACH of a controller (SGLang `managers/cache_controller.py`, attach_storage_backend)."""
    del state, result
    controller = args[0]
    return (
        outcome(error),
        text(argument(args, kwargs, 1, "storage_backend")),
        number(controller, "prefetch_threshold"),
        number(controller, "prefetch_capacity_limit"),
        bool(getattr(controller, "backup_skip", False)),
        bool(getattr(controller, "enable_storage", False)),
        None,
    )


THREADS = ("prefetch_thread", "backup_thread", "prefetch_io_aux_thread", "prefetch_sync_thread")
"""Where a controller keeps its storage threads (`managers/cache_controller.py`, _stop_storage_threads)."""


def detached(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BACKEND_DETACH: where it failed, the threads that run on (`managers/cache_controller.py`, detach_storage_backend)."""
    del kwargs, state, result
    controller = args[0]
    alive = [name for name in THREADS if getattr(getattr(controller, name, None), "is_alive", bool)()] if error is not None else []
    return (outcome(error), alive or None, bool(getattr(controller, "enable_storage", False)), None)


def before_attach_asked(args: Args, kwargs: Kwargs) -> Any:
    """Whether storage was on already, and under which backend."""
    del kwargs
    controller = getattr(args[0], "cache_controller", None)
    return (bool(getattr(args[0], "enable_storage", False)), text(getattr(controller, "storage_backend_type", None)))


def attach_asked(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BACKEND_ATTACH_ASKED of a tree: the engine's own answer, whether the settings were dropped (A12), the policies in force afterwards."""
    was_on, was = state
    name = text(argument(args, kwargs, 1, "storage_backend"))
    extra = argument(args, kwargs, 2, "storage_backend_extra_config_json")
    ok, message = result if isinstance(result, tuple) and len(result) == 2 else (error is None, None)
    dropped = bool(ok and was_on and was == name and extra)
    reason = "A12" if dropped else (None if ok else "A11")
    tree = args[0]
    return (
        outcome(error, declined=not ok),
        name,
        _names(extra),
        str(message)[:200] if message else None,
        reason,
        text(getattr(tree, "prefetch_stop_policy", None)),
        text(getattr(getattr(tree, "cache_controller", None), "write_policy", None)),
        number(tree, "write_through_threshold"),
        number(tree, "prefetch_threshold"),
        None,
    )


def _names(extra: Any) -> list[str] | None:
    """Names of the settings in a JSON text; a text that names a file, or is none, tells none."""
    try:
        given = json.loads(extra) if isinstance(extra, str) else None
    except ValueError:
        return None
    return sorted(str(name) for name in given)[:16] if isinstance(given, dict) else None


def controller_opened(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """CONTROLLER_OPEN (SGLang `managers/cache_controller.py`, HiCacheController.__init__)."""
    del state, result, kwargs
    controller = args[0]
    host = getattr(controller, "mem_pool_host", None)
    # From 0.5.23 on a group stands for its pools; the one whose indices all share is the KV pool.
    host = getattr(getattr(host, "anchor_entry", None), "host_pool", host)
    device = getattr(controller, "mem_pool_device", None)
    page = number(controller, "page_size")
    per_token = number(host, "size_per_token")
    return (
        outcome(error),
        page,
        text(getattr(controller, "write_policy", None)),
        text(getattr(controller, "io_backend", None)),
        text(getattr(host, "layout", None)),
        number(host, "size"),
        number(device, "size"),
        per_token * page if per_token and page else None,
        type(host).__name__ if host is not None else None,
        text(getattr(host, "dtype", None)),
        None,
    )


def tree_opened(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """TREE_OPEN (SGLang `mem_cache/hiradix_cache.py` and `unified_radix_cache.py`)."""
    del state, result, kwargs
    tree = args[0]
    timeout = getattr(tree, "prefetch_timeout_config", None)
    page = number(tree, "page_size") or 1
    per_ki = getattr(timeout, "per_ki_token", None)
    return (
        outcome(error),
        type(tree).__name__,
        page,
        bigram(tree),
        text(getattr(tree, "prefetch_stop_policy", None)),
        number(tree, "prefetch_threshold"),
        number(tree, "load_back_threshold"),
        number(tree, "write_through_threshold"),
        _float(getattr(timeout, "base", getattr(tree, "prefetch_timeout_base", None))),
        per_ki * page / 1024 if isinstance(per_ki, (int, float)) else _float(getattr(tree, "prefetch_timeout_per_page", None)),
        _float(getattr(timeout, "max", None)),
        number(getattr(tree, "cache_controller", None), "prefetch_capacity_limit"),
        number(tree, "sliding_window_size"),
        *(("asked", "blocked") if hasattr(tree, "_storage_prefetch_wait") else ("agreed", "enqueue")),
    )


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def store_set_up(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_SETUP at the binding: `setup(hostname, metadata, segment, buffer, protocol, devices, master, ...)` or `setup(dict)`."""
    del state
    given = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
    protocol = text(given.get("protocol", argument(args, kwargs, 5, "protocol")))
    return (
        outcome(error, declined=isinstance(result, int) and result != 0),
        whole(result),
        text(given.get("master_server_addr", argument(args, kwargs, 7, "master_server_addr"))),
        protocol,
        in_use(protocol),
        rdma_devices(),
        whole(argument(args, kwargs, 3, "global_segment_size")),
        sorted(str(name) for name in kwargs)[:16] or None,
        None,
    )
