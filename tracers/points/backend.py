"""Rows of the backend's layer (selection, configuration, attach) and of the process itself."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.read import backend as read
from tracers.read import process

SCHEDULER = "sglang.srt.managers.scheduler:Scheduler"
CONTROLLER = "sglang.srt.managers.cache_controller:HiCacheController"
HYBRID = "sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller:HybridCacheController"
RADIX = "sglang.srt.mem_cache.hiradix_cache:HiRadixCache"
UNIFIED = "sglang.srt.mem_cache.unified_radix_cache:UnifiedRadixCache"
STORE = "sglang.srt.mem_cache.storage.mooncake_store.mooncake_store:MooncakeStore"
STORE_BASE = "sglang.srt.mem_cache.storage.mooncake_store.mooncake_store:MooncakeBaseStore"
FACTORY = "sglang.srt.mem_cache.storage.backend_factory:StorageBackendFactory"
ENTRY = "sglang.srt.entrypoints.engine:Engine"
SIGNALS = "sglang.srt.managers.tokenizer_manager:SignalHandler"
SERVER = "sglang.srt.entrypoints.http_server"
SPLIT = "0.5.15"
"""First release after 0.5.14: how targets look between it and 0.5.23 is not known."""
NEW = "0.5.23"
BUILT = ("backend_created",)

POINTS: tuple[Point, ...] = (
    Point(
        id="engine.start",
        layer="process",
        doc="ranks and settings asked for, when a scheduler begins to build itself",
        targets=(
            Target(f"{SCHEDULER}.__init__", ("self", "server_args", "port_args", "gpu_id", "tp_rank"), until=SPLIT),
            Target(f"{SCHEDULER}.__init__", ("self", "server_args", "port_args"), since=NEW, after=process.scheduler_begins_placed),
        ),
        span=v.ENGINE_START,
        attributes=(
            v.TP_RANK, v.TP_SIZE, v.PP_RANK, v.PP_SIZE, v.DP_RANK, v.DEVICE, v.MODEL, v.PAGE_SIZE, v.HIERARCHICAL, v.ASKED_BACKEND,
            v.WRITE_POLICY, v.STOP_POLICY, v.MEM_LAYOUT, v.IO_BACKEND, v.KV_DTYPE, v.DISAGGREGATION, v.LINKER, v.RETRIES,
        ),
        after=process.scheduler_begins,
        at_entry=True,
        rungs=BUILT,
    ),
    Point(
        id="engine.settings",
        layer="process",
        doc="the host layout that was asked for, before it is made to fit the storage backend",
        targets=(
            Target("sglang.srt.server_args:ServerArgs._resolve_storage_layout_compatibility", ("self",), until=SPLIT),
            Target("sglang.srt.arg_groups.hicache_hook:resolve_storage_layout_compatibility", ("server_args",), since=NEW),
        ),
        span=v.SETTINGS,
        attributes=(v.OUTCOME, v.MEM_LAYOUT_ASKED, v.ERROR_TEXT),
        before=process.before_settings,
        after=process.settings_fitted,
    ),
    Point(
        id="engine.built",
        layer="process",
        doc="settings in force once the scheduler is built, or why it failed",
        targets=(
            Target(f"{SCHEDULER}.__init__", ("self", "server_args", "port_args", "gpu_id", "tp_rank"), until=SPLIT),
            Target(f"{SCHEDULER}.__init__", ("self", "server_args", "port_args"), since=NEW),
        ),
        span=v.ENGINE,
        attributes=(v.OUTCOME, v.TREE, v.PAGE_SIZE, v.BIGRAM, v.HIERARCHICAL, v.KV_DTYPE, v.MEM_LAYOUT, v.IO_BACKEND, v.DRAFT_STORED, v.ERROR_TEXT),
        after=process.scheduler_built,
        carries=True,
        fatal=True,
        rungs=BUILT,
    ),
    Point(
        id="engine.shutdown",
        layer="process",
        doc="the parent ends its schedulers in order",
        targets=(Target(f"{ENTRY}.shutdown", ("self",)), Target(f"{SIGNALS}.sigterm_handler", ("self", "signum", "frame"))),
        before=process.parent_ends,
    ),
    Point(
        id="engine.warmup",
        layer="process",
        doc="when an HTTP server sends its own warm-up request",
        targets=(Target(f"{SERVER}:_wait_and_warmup", ("server_args",)),),
        span=v.WARMUP,
        attributes=(v.OUTCOME, v.ERROR_TEXT),
        after=read.plain,
    ),
    Point(
        id="backend.create",
        layer="backend",
        doc="the factory's choice: name, class, ranks, layout",
        targets=(Target(f"{FACTORY}.create_backend", ("cls", "backend_name", "storage_config", "mem_pool_host")),),
        span=v.BACKEND_CREATE,
        attributes=(
            v.OUTCOME, v.BACKEND, v.BACKEND_CLASS, v.TP_RANK, v.TP_SIZE, v.PP_RANK, v.PP_SIZE, v.REPLICATED, v.LAYOUT_SPLIT, v.LCM_SIZE, v.MODEL, v.ERROR_TEXT,
        ),
        after=read.created,
        carries=True,
        rungs=BUILT,
    ),
    Point(
        id="backend.config",
        layer="backend",
        doc="which configuration source won, its values, and what the user set that it overrides",
        targets=(Target(f"{STORE_BASE}._load_config", ("self", "storage_config")),),
        span=v.BACKEND_CONFIG,
        attributes=(
            v.OUTCOME, v.CONFIG_SOURCE, v.CONFIG_IGNORED, v.MASTER, v.MASTER_HTTP_PORT, v.METADATA, v.PROTOCOL, v.PROTOCOL_IN_USE, v.RDMA_DEVICES,
            v.DEVICE_NAME, v.SEGMENT_SIZE, v.LOCAL_HOSTNAME, v.STANDALONE, v.TENANT, v.ERROR_TEXT,
        ),
        after=read.configured,
    ),
    Point(
        id="backend.open",
        layer="backend",
        doc="key scheme, Transfer Engine sharing, group semantics",
        targets=(Target(f"{STORE}.__init__", ("self", "storage_config")),),
        span=v.BACKEND_OPEN,
        attributes=(
            v.OUTCOME, v.TAG, v.KEY_PREFIX, v.KEY_SUFFIXES, v.GROUP_ASKED, v.GROUP_SUPPORTED, v.ENGINE_EXISTS, v.ENGINE_DEVICE, v.ENGINE_SHARED, v.PROTOCOL, v.ERROR_TEXT,
        ),
        after=read.opened,
        carries=True,
        rungs=(*BUILT, "written"),
    ),
    Point(
        id="backend.warmup",
        layer="backend",
        doc="put, exists and get of the warm-up key",
        targets=(Target(f"{STORE}.warmup", ("self",)),),
        span=v.BACKEND_WARMUP,
        attributes=(v.OUTCOME, v.ERROR_TEXT),
        after=read.plain,
        carries=True,
        rungs=BUILT,
    ),
    Point(
        id="backend.check_server",
        layer="backend",
        doc="wait for the master's HTTP side before connecting",
        targets=(Target(f"{STORE}.check_server", ("self",)),),
        span=v.BACKEND_WARMUP,
        attributes=(v.OUTCOME, v.ERROR_TEXT),
        after=read.plain,
    ),
    Point(
        id="backend.attach",
        layer="backend",
        doc="the controller attaches the backend: threshold and capacity limit",
        targets=(
            Target(f"{CONTROLLER}.attach_storage_backend", ("self", "storage_backend")),
            Target(f"{HYBRID}.attach_storage_backend", ("self", "storage_backend")),
        ),
        span=v.BACKEND_ATTACH,
        attributes=(v.OUTCOME, v.BACKEND, v.THRESHOLD, v.CAPACITY_LIMIT, v.BACKUP_SKIP, v.STORAGE_ON, v.ERROR_TEXT),
        after=read.attached,
        carries=True,
        once=True,
        rungs=BUILT,
    ),
    Point(
        id="backend.attach_asked",
        layer="backend",
        doc="a running engine was asked to attach: names of the settings given, its own answer, the policies in force afterwards",
        targets=(
            Target(f"{RADIX}.attach_storage_backend", ("self", "storage_backend", "storage_backend_extra_config_json"), until=SPLIT),
            Target(f"{UNIFIED}.attach_storage_backend", ("self", "storage_backend", "storage_backend_extra_config_json")),
        ),
        span=v.BACKEND_ATTACH_ASKED,
        attributes=(v.OUTCOME, v.BACKEND, v.NAMES, v.MESSAGE, v.REASON, v.STOP_POLICY, v.WRITE_POLICY, v.WRITE_THRESHOLD, v.THRESHOLD, v.ERROR_TEXT),
        before=read.before_attach_asked,
        after=read.attach_asked,
        carries=True,
    ),
    Point(
        id="backend.detach",
        layer="backend",
        doc="the storage backend is detached, or a storage thread did not end",
        targets=(Target(f"{CONTROLLER}.detach_storage_backend", ("self",)),),
        span=v.BACKEND_DETACH,
        attributes=(v.OUTCOME, v.NAMES, v.STORAGE_ON, v.ERROR_TEXT),
        after=read.detached,
    ),
    Point(
        id="controller.open",
        layer="backend",
        doc="page size, policies, pool sizes and layout of the cache controller",
        targets=(Target(f"{CONTROLLER}.__init__", ("self", "token_to_kv_pool_allocator", "mem_pool_host", "page_size")),),
        span=v.CONTROLLER_OPEN,
        attributes=(
            v.OUTCOME, v.PAGE_SIZE, v.WRITE_POLICY, v.IO_BACKEND, v.MEM_LAYOUT, v.HOST_TOKENS, v.DEVICE_TOKENS, v.PAGE_BYTES, v.POOL_CLASS, v.KV_DTYPE, v.ERROR_TEXT,
        ),
        after=read.controller_opened,
        carries=True,
        rungs=BUILT,
    ),
    Point(
        id="tree.open",
        layer="backend",
        doc="class, thresholds and stop policy of the prefix tree",
        targets=(
            Target(f"{RADIX}.__init__", ("self", "params", "server_args"), until=SPLIT),
            Target(f"{UNIFIED}.init_hicache", ("self",)),
        ),
        span=v.TREE_OPEN,
        attributes=(
            v.OUTCOME, v.TREE, v.PAGE_SIZE, v.BIGRAM, v.STOP_POLICY, v.THRESHOLD, v.LOAD_BACK_THRESHOLD, v.WRITE_THRESHOLD, v.TIMEOUT_BASE,
            v.TIMEOUT_PER_PAGE, v.TIMEOUT_MAX, v.CAPACITY_LIMIT, v.WINDOW, v.TIMEOUT_COUNTS, v.TIMEOUT_CLOCK,
        ),
        after=read.tree_opened,
        carries=True,
    ),
)
