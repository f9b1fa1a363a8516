"""Every span name, attribute key and enum value with one line of meaning, and the recording's version; imports nothing."""

RECORDING_VERSION = 1

SPANS: dict[str, str] = {}
"""Span name -> what one span of it says."""

ATTRIBUTES: dict[str, tuple[str, str, str]] = {}
"""Attribute key -> (kind, unit, meaning); kind is one of str, int, float, bool, strs, ints."""

RESOURCE: dict[str, str] = {}
"""Resource attribute key -> meaning."""

RESOURCE_KINDS: dict[str, str] = {}
"""Resource attribute key -> kind, as in ATTRIBUTES."""


METRICS: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {}
"""Metric name -> (kind, unit, what it sums, what a sum over ranks means, attributes); kinds are those of OpenTelemetry."""

DIMENSIONS: dict[str, str] = {}
"""Attribute of a metric -> meaning."""

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
ADDS, SAME, WHOLE = "adds up", "same on every rank", "of the whole recording"
"""What a sum over ranks means: their total; nothing, for each rank tells of the same tokens or steps; or there is no rank to sum over."""


def _metric(name: str, kind: str, unit: str, ranks: str, meaning: str, *attributes: str) -> str:
    METRICS[name] = (kind, unit, meaning, ranks, attributes)
    return name


def _dimension(key: str, meaning: str) -> str:
    DIMENSIONS[key] = meaning
    return key


def _span(name: str, meaning: str) -> str:
    SPANS[name] = meaning
    return name


def _attr(key: str, kind: str, meaning: str, unit: str = "") -> str:
    ATTRIBUTES[key] = (kind, unit, meaning)
    return key


def _resource(key: str, meaning: str, kind: str = "str") -> str:
    RESOURCE[key], RESOURCE_KINDS[key] = meaning, kind
    return key


# --- resource -------------------------------------------------------------------------------------------------------
R_SERVICE = _resource("service.name", "OTEL_SERVICE_NAME, else sglang")
R_HOST = _resource("host.name", "host that the process runs on")
R_PID = _resource("process.pid", "process id", "int")
R_ENGINE = _resource("hicachectl.engine.id", "<host>:<pid>:<start in ms>: names one process for ever")
R_VERSION = _resource("hicachectl.recording.version", "version of this vocabulary", "int")
R_SGLANG = _resource("hicachectl.sglang.version", "installed SGLang")
R_MOONCAKE = _resource("hicachectl.mooncake.version", "installed Mooncake client")
R_TP_RANK = _resource("hicachectl.tp.rank", "tensor parallel rank, once known", "int")
R_PP_RANK = _resource("hicachectl.pp.rank", "pipeline stage, once known", "int")
R_STAND_IN = _resource("hicachectl.stand_in", "present and 'cpu' where a CPU stands in for the GPU")
R_SCOPE = "hicachectl.tracers"

# --- the live switch --------------------------------------------------------------------------------------------------
ATTACH_FOLDER_VARIABLE = "HICACHECTL_ATTACH_DIR"
ATTACH_FOLDER = "/tmp/hicachectl-{uid}"  # noqa: S108 - both sides insist on its owner and its mode
"""Where engines that may be attached to listen: a folder of the user's own, the same whatever the environment of either side."""
ATTACH_SOCKET = "{pid}.sock"
ATTACH_LINE = 8192
"""Most bytes of a line, in both directions; a line is one JSON object."""
LOOK, ON, OFF = "look", "on", "off"
"""What may be asked of an engine: how it is, to begin a recording for as long as the connection lives, to end whatever recording there is."""
COLLECTOR_OVERRULED = tuple(f"OTEL_EXPORTER_OTLP_{signal}_{name}" for signal in ("TRACES", "METRICS") for name in ("ENDPOINT", "PROTOCOL"))
"""Variables that would go before those that name a collector for one recording."""

# --- the process ----------------------------------------------------------------------------------------------------
ENGINE_START = _span("hicachectl.engine.start", "a scheduler began to build itself: ranks and what was asked of it")
SETTINGS = _span("hicachectl.engine.settings", "settings of an engine were made to fit each other, in the process that starts it")
ENGINE = _span("hicachectl.engine", "a scheduler is built, or failed to: the settings in force")
LEDGER = _span("hicachectl.ledger", "which hook points this process has, misses, retired, and what it dropped so far")
WARMUP = _span("hicachectl.warmup", "an HTTP server sent its own warm-up request: requests that its schedulers queue meanwhile are not a user's")
STORE_SAMPLE = _span("hicachectl.store.sample", "the master's HTTP counters at one moment, taken beside the engine")

# --- backend --------------------------------------------------------------------------------------------------------
BACKEND_CREATE = _span("hicache.backend.create", "the factory chose and built the storage backend")
BACKEND_CONFIG = _span("hicache.backend.config", "the Mooncake configuration was read: source and values")
BACKEND_OPEN = _span("hicache.backend.open", "MooncakeStore built itself: key scheme, engine sharing, group semantics")
BACKEND_WARMUP = _span("hicache.backend.warmup", "put, exists and get of a warm-up key")
BACKEND_ATTACH = _span("hicache.backend.attach", "the cache controller attached the storage backend and started its threads")
BACKEND_ATTACH_ASKED = _span("hicache.backend.attach_asked", "somebody asked a running engine to attach a storage backend")
BACKEND_DETACH = _span("hicache.backend.detach", "the storage backend was detached")
CONTROLLER_OPEN = _span("hicache.controller.open", "the cache controller is built: page size, policy, pool sizes")
TREE_OPEN = _span("hicache.tree.open", "the prefix tree is built: class, thresholds, stop policy")

# --- buffers --------------------------------------------------------------------------------------------------------
BUFFER_POOL = _span("hicache.buffer.register_pool", "a host pool was handed to the backend for registration")
BUFFER_REGISTER = _span("mooncake.store.register_buffer", "one memory range was registered with the store client")
BUFFER_UNREGISTER = _span("mooncake.store.unregister_buffer", "one memory range was taken back")

# --- the Mooncake binding -------------------------------------------------------------------------------------------
STORE_SETUP = _span("mooncake.store.setup", "the store client connected, or failed with a code")
STORE_EXIST = _span("mooncake.store.exist", "existence of objects was asked")
STORE_PUT = _span("mooncake.store.put", "objects were put")
STORE_GET = _span("mooncake.store.get", "objects were read")
STORE_REPLICA = _span("mooncake.store.replica", "where the master says that an object lies, asked beside the engine because a get hangs or failed")
STORE_REMOVE = _span("mooncake.store.remove", "objects were removed")
STORE_CLOSE = _span("mooncake.store.close", "the store client was closed")

# --- write ----------------------------------------------------------------------------------------------------------
WRITE_INSERT = _span("hicache.write.insert", "a request's tokens were inserted into the prefix tree")
WRITE_BACKUP = _span("hicache.write.backup", "a node was to be copied from device to host")
WRITE_HOST_DONE = _span("hicache.write.host_done", "the copy of a node to the host has finished")
WRITE_ENQUEUE = _span("hicache.write.enqueue", "pages of a node were queued for the store")
WRITE_STORE = _span("hicache.write.store", "the backup thread wrote the pages of one operation to the store")
WRITE_POOLS = _span("hicache.write.pools", "pages of the side pools of one operation were written to the store")
WRITE_THREAD = _span("hicache.write.thread", "the backup thread ended")

# --- prefetch -------------------------------------------------------------------------------------------------------
REQUEST_QUEUED = _span("hicache.request.queued", "a request entered the waiting queue")
PREFETCH_GATE = _span("hicache.prefetch.gate", "the scheduler matched the prompt and decided whether to ask the store")
PREFETCH_ENQUEUE = _span("hicache.prefetch.enqueue", "the tree accepted or declined a prefetch")
PREFETCH_LOOKUP = _span("hicache.prefetch.lookup", "the prefetch thread asked the store how many pages are there")
PREFETCH_TRANSFER = _span("hicache.prefetch.transfer", "the I/O thread read pages from the store into the host pool")
PREFETCH_FINISH = _span("hicache.prefetch.finish", "the scheduler ended a prefetch and took what had arrived")
PREFETCH_PUBLISH = _span("hicache.prefetch.publish", "pages that had arrived were inserted into the host tree")
PREFETCH_POOLS = _span("hicache.prefetch.pools", "how far each pool reaches into the prefix that the store has")
PREFETCH_POOLS_READ = _span("hicache.prefetch.pools_read", "pages of the side pools were read from the store")
PREFETCH_AGREE = _span("hicache.prefetch.agree", "the ranks agreed on the pages that all of them found")
PREFETCH_SETTLE = _span("hicache.prefetch.settle", "the engine told that tokens of a prefetch are of no use, and why")
PREFETCH_REVOKE = _span("hicache.prefetch.revoke", "a prefetch was given up before any page was read")
PREFETCH_CREDIT = _span("hicache.prefetch.credit", "tokens credited to storage at an admission attempt")
PREFETCH_ABORT = _span("hicache.prefetch.abort", "a request with a prefetch was aborted")
PREFETCH_THREAD = _span("hicache.prefetch.thread", "a prefetch thread ended")

# --- load back ------------------------------------------------------------------------------------------------------
LOAD_BACK_ASK = _span("hicache.load_back.ask", "admission asked for host pages to be loaded back")
LOAD_BACK = _span("hicache.load_back.load", "the tree loaded a node's host pages back, or declined")
LOAD_BACK_START = _span("hicache.load_back.start", "the copies from host to device were issued")
LOAD_BACK_DONE = _span("hicache.load_back.done", "the copies from host to device have finished")

# --- prefill/decode disaggregation ------------------------------------------------------------------------------------
PD_REGISTER = _span("disaggregation.register_buffers", "buffers of a prefill or decode engine were registered with its Transfer Engine")

# --- reuse ----------------------------------------------------------------------------------------------------------
ADMISSION = _span("hicache.reuse.admission", "the scheduler tried to admit a request to a prefill batch; written when the answer changes")
PREFILL = _span("hicache.reuse.prefill", "a request's prefix was fixed in a prefill batch")
FORWARD = _span("hicache.reuse.forward", "a prefill batch was handed to the device")
EXECUTED = _span("hicache.reuse.executed", "the result of a prefill batch came back from the device")
REQUEST_FINISHED = _span("hicache.request.finished", "a request left the engine")

# --- eviction and flush ---------------------------------------------------------------------------------------------
EVICT_DEVICE = _span("hicache.evict.device", "device memory was freed in the tree")
EVICT_HOST = _span("hicache.evict.host", "host memory was freed in the tree")
FLUSH = _span("hicache.flush", "the engine's device and host caches were flushed; the store is not touched")
RESET = _span("hicache.reset", "the prefix tree was reset")
STORAGE_CLEAR = _span("hicache.storage.clear", "the engine asked the storage backend to remove everything")

# --- attributes: common ---------------------------------------------------------------------------------------------
RID = _attr("hicache.request.id", "str", "request id as the engine knows it")
OUTCOME = _attr("hicachectl.outcome", "str", "ok, failed or declined")
ERROR = _attr("error.type", "str", "class of the exception that passed through")
ERROR_TEXT = _attr("hicachectl.error.message", "str", "first line of the exception's text, 200 characters at most")
REASON = _attr("hicachectl.reason", "str", "id of the skip reason that the process itself could tell, such as R04")
TOKENS = _attr("hicache.tokens", "int", "tokens that this step is about", "{token}")
PAGES = _attr("hicache.pages", "int", "full pages that this step is about", "{page}")
PAGE_SIZE = _attr("hicache.page.size", "int", "tokens in a page", "{token}")
NODE = _attr("hicache.node.id", "int", "tree node, unique in one process and rank between resets")
OPERATION = _attr("hicache.operation.id", "int", "storage operation, unique in one process")
DETAIL_CUT = _attr("hicachectl.detail.cut", "bool", "true where per-object detail was left out to stay within bounds")
NAMES = _attr("hicachectl.names", "strs", "names that a summary lists")

# --- attributes: process --------------------------------------------------------------------------------------------
TP_RANK = _attr("hicachectl.engine.tp_rank", "int", "tensor parallel rank")
TP_SIZE = _attr("hicachectl.engine.tp_size", "int", "tensor parallel size")
PP_RANK = _attr("hicachectl.engine.pp_rank", "int", "pipeline stage")
PP_SIZE = _attr("hicachectl.engine.pp_size", "int", "pipeline stages")
DP_RANK = _attr("hicachectl.engine.dp_rank", "int", "data parallel rank")
DEVICE = _attr("hicachectl.engine.device", "str", "device that the engine runs on")
MODEL = _attr("hicachectl.engine.model", "str", "served model name")
KV_DTYPE = _attr("hicachectl.engine.kv_dtype", "str", "element type of the KV pool")
TREE = _attr("hicache.tree.class", "str", "class of the prefix tree")
BIGRAM = _attr("hicache.key.bigram", "bool", "page keys are made of token pairs (EAGLE)")
WRITE_POLICY = _attr("hicache.write.policy", "str", "write_through, write_through_selective or write_back")
STOP_POLICY = _attr("hicache.prefetch.stop_policy", "str", "best_effort, wait_complete or timeout")
MEM_LAYOUT = _attr("hicache.host.layout", "str", "layout of the host pool")
MEM_LAYOUT_ASKED = _attr("hicache.host.layout.asked", "str", "layout of the host pool that was asked for, where the backend may not take it")
IO_BACKEND = _attr("hicache.host.io_backend", "str", "kernel or direct")
ASKED_BACKEND = _attr("hicache.backend.asked", "str", "storage backend that the settings name")
HIERARCHICAL = _attr("hicache.enabled", "bool", "the hierarchical cache is on")
DISAGGREGATION = _attr("hicachectl.engine.disaggregation", "str", "null, prefill or decode")
HOST_TOKENS = _attr("hicache.host.tokens", "int", "size of the host pool", "{token}")
DEVICE_TOKENS = _attr("hicache.device.tokens", "int", "size of the device pool", "{token}")
PAGE_BYTES = _attr("hicache.page.bytes", "int", "bytes of one page in the host pool, all its objects together", "By")
LOAD_BACK_THRESHOLD = _attr("hicache.load_back.threshold", "int", "fewest tokens that a load-back moves", "{token}")
WRITE_THRESHOLD = _attr("hicache.write.threshold", "int", "hits after which a node is written")
TIMEOUT_BASE = _attr("hicache.prefetch.timeout.base", "float", "deadline of the timeout policy, fixed part", "s")
TIMEOUT_PER_PAGE = _attr("hicache.prefetch.timeout.per_page", "float", "deadline of the timeout policy, part per page", "s")
TIMEOUT_COUNTS = _attr("hicache.prefetch.timeout.counts", "str", "pages that the deadline grows with: agreed (found on every rank) or asked")
TIMEOUT_CLOCK = _attr("hicache.prefetch.timeout.clock", "str", "when the deadline's clock starts: enqueue, or blocked (the first time that admission waited for it)")
TIMEOUT_MAX = _attr("hicache.prefetch.timeout.max", "float", "upper bound of the deadline", "s")
POINTS_INSTALLED = _attr("hicachectl.points.installed", "int", "hook points that are on")
POINTS_MISSING = _attr("hicachectl.points.missing", "strs", "hook points whose target this version lacks")
POINTS_CHANGED = _attr("hicachectl.points.changed", "strs", "hook points whose target has another signature")
POINTS_RETIRED = _attr("hicachectl.points.retired", "strs", "hook points that were switched off after repeated faults of their own")
POINTS_FAULTY = _attr("hicachectl.points.faulty", "strs", "hook points of which a call was not recorded because of a fault of our own")
POINTS_FAULTS = _attr("hicachectl.points.faults", "int", "faults of our own that were swallowed")
POINTS_BLIND = _attr("hicachectl.points.blind", "strs", "hook points that an attach could not reach everywhere: a call of theirs had begun, or somebody holds the method itself")
POINTS_WAITING = _attr("hicachectl.points.waiting", "strs", "hook points whose module this process has not imported")
DROPPED = _attr("hicachectl.dropped", "int", "spans lost so far in this process", "{span}")
WRITTEN = _attr("hicachectl.written", "int", "spans of this process that its files hold", "{span}")
RUNNING = _attr("hicachectl.running", "strs", "gets that had not returned after a second: start in ms, request id, first object key, one space between")
CLOSED = _attr("hicachectl.closed", "bool", "true in the last ledger of a process that ended in order")
SCHEDULER = _attr("hicachectl.scheduler", "bool", "the process runs a scheduler")
PARENT_PID = _attr("process.parent_pid", "int", "process that started this one")
SEEN = _attr("hicachectl.seen", "int", "when this ledger was told, since the epoch", "ms")
ENDED = _attr("hicachectl.ended", "int", "when this process ended its schedulers, which are killed, since the epoch", "ms")
ATTACHED = _attr("hicachectl.attached", "int", "when the tracers were switched on in this process, which had been running already, since the epoch", "ms")
IN_FORCE = _attr("hicachectl.in_force", "bool", "read from what had been built when the tracers were switched on: the call itself was not seen")
DETAIL_DROPPED = _attr("hicachectl.detail.dropped", "int", "spans of which detail was left out to stay within bounds", "{span}")
EXPORT_DROPPED = _attr("hicachectl.export.dropped", "int", "spans that were written and did not reach the collector so far", "{span}")
EXPORT_UNSAMPLED = _attr("hicachectl.export.unsampled", "int", "spans that were written and that the sampler keeps from the collector so far", "{span}")

# --- attributes: backend --------------------------------------------------------------------------------------------
BACKEND = _attr("hicache.backend.name", "str", "storage backend by its registered name")
BACKEND_CLASS = _attr("hicache.backend.class", "str", "class that the factory returned")
CONFIG_SOURCE = _attr("hicache.backend.config.source", "str", "extra_config, file or env")
CONFIG_IGNORED = _attr("hicache.backend.config.ignored", "strs", "NAME=value pairs that the user set and this source overrides with another value")
MASTER = _attr("mooncake.master.address", "str", "address of the master that the client was given")
MASTER_HTTP_PORT = _attr("mooncake.master.http_port", "int", "port of the master's HTTP side, as configured")
METADATA = _attr("mooncake.metadata.server", "str", "metadata server")
PROTOCOL = _attr("mooncake.protocol.asked", "str", "transport that the configuration names")
PROTOCOL_IN_USE = _attr("mooncake.protocol.in_use", "str", "transport that can be in use on this host")
RDMA_DEVICES = _attr("mooncake.rdma.devices", "int", "RDMA devices visible on this host")
DEVICE_NAME = _attr("mooncake.device.name", "str", "device name as configured for this rank")
SEGMENT_SIZE = _attr("mooncake.segment.size", "int", "memory that this client gives to the pool", "By")
LOCAL_HOSTNAME = _attr("mooncake.local_hostname", "str", "name under which the client is reached")
STANDALONE = _attr("mooncake.standalone", "bool", "dummy client mode")
TAG = _attr("hicache.key.tag", "str", "extra_backend_tag in front of every object key")
KEY_PREFIX = _attr("hicache.key.prefix", "str", "what stands before the page key in every object key")
KEY_SUFFIXES = _attr("hicache.key.suffixes", "strs", "what stands behind the page key, one a KV object of a page")
GROUP_ASKED = _attr("hicache.group.asked", "bool", "group semantics asked for")
GROUP_SUPPORTED = _attr("hicache.group.supported", "bool", "the installed Mooncake knows group ids")
ENGINE_SHARED = _attr("mooncake.engine.shared", "bool", "an existing Transfer Engine is reused")
ENGINE_DEVICE = _attr("mooncake.engine.device", "str", "device of the Transfer Engine that exists; (none) where it has none")
ENGINE_EXISTS = _attr("mooncake.engine.exists", "bool", "a Transfer Engine existed that could have been shared")
REPLICATED = _attr("hicache.kv.replicated", "bool", "every rank holds the same KV (MLA): only rank 0 writes")
LAYOUT_SPLIT = _attr("hicache.kv.split_heads", "bool", "objects hold parts of the heads (tp_lcm_size)")
LCM_SIZE = _attr("hicache.kv.tp_lcm_size", "int", "tensor parallel size that split heads serve")
DRAFT_STORED = _attr("hicache.draft.stored", "bool", "the draft model's KV goes to the store; absent without a draft model")
STORAGE_ON = _attr("hicache.backend.on", "bool", "the controller takes its storage for attached after the call")
TENANT = _attr("mooncake.tenant", "str", "tenant under which the client keeps its objects")
LINKER = _attr("hicache.linker.asked", "bool", "the settings ask for the external linker, which stores under keys of its own")
RETRIES = _attr("hicache.prefetch.retries", "int", "lookups that may be repeated for a request at most")
WINDOW = _attr("hicache.window", "int", "tokens of the model's sliding window", "{token}")
THRESHOLD = _attr("hicache.prefetch.threshold", "int", "fewest tokens for which a prefetch is made", "{token}")
CAPACITY_LIMIT = _attr("hicache.prefetch.limit", "int", "tokens that all running prefetches may occupy", "{token}")
OCCUPIED = _attr("hicache.prefetch.occupied", "int", "tokens occupied by running prefetches", "{token}")
MESSAGE = _attr("hicachectl.message", "str", "the engine's own answer")
CODE = _attr("mooncake.code", "int", "return code of the store client")
MEMLOCK = _attr("hicachectl.memlock.limit", "int", "bytes that this process may lock, where a registration was refused; -1 for no limit", "By")
POOL = _attr("hicache.pool.name", "str", "host pool")
POOL_PAGES = _attr("hicache.pool.pages", "strs", "pool=pages: how far it reaches in the prefix, or pages that succeeded/pages asked")
FOUND_PAGES = _attr("hicache.pool.found", "int", "contiguous pages that every pool has", "{page}")
POOL_SHORT = _attr("hicache.pool.short", "str", "pool that shortens the prefix, whose pages did not all succeed, or that had no room: the first")
POOL_CLASS = _attr("hicache.pool.class", "str", "class of the host pool")
ADDRESS = _attr("mooncake.buffer.address", "int", "first byte of the range")
BYTES = _attr("hicachectl.bytes", "int", "bytes moved, or size of the range", "By")

# --- attributes: objects of one batch -------------------------------------------------------------------------------
OBJECTS = _attr("mooncake.objects", "int", "objects in the call", "{object}")
OBJECTS_OK = _attr("mooncake.objects.ok", "int", "objects for which the call succeeded: exists, put 0, all bytes read", "{object}")
OBJECTS_CODES = _attr("mooncake.objects.codes", "strs", "code=count of every negative code in the call, and 0=count of absent objects in an existence call")
FIRST_BAD = _attr("mooncake.objects.first_bad", "int", "index of the first object that did not succeed")
FIRST_BAD_KEY = _attr("mooncake.objects.first_bad.key", "str", "its object key")
FIRST_BAD_CODE = _attr("mooncake.objects.first_bad.code", "int", "its code; 0 for an absent object, bytes for a short read")
PAGE_KEYS = _attr("hicache.page.keys", "str", "page keys of the call in order, 64 hex digits each, no separator")
BAD_OBJECTS = _attr("mooncake.objects.bad", "ints", "indices of the objects that did not succeed, the first 256")
OBJECT_PREFIX = _attr("mooncake.objects.prefix", "str", "what stands before the page key")
OBJECT_SUFFIXES = _attr("mooncake.objects.suffixes", "strs", "what stands behind the page key; objects are page by page in this order")
OBJECT_KEYS = _attr("mooncake.objects.keys", "strs", "object keys where they do not follow the page scheme, the first 16")
OBJECT_INDICES = _attr("mooncake.objects.indices", "ints", "where only some objects of the pages were in the call: which, as index into page x suffix")
BYTES_ASKED = _attr("mooncake.bytes.asked", "int", "bytes of the buffers passed", "By")
OBJECT_BYTES = _attr("mooncake.object.bytes", "int", "bytes of one object where all are equal", "By")
UNCOVERED = _attr("mooncake.buffer.uncovered", "int", "buffers passed that no registered range covers")
FIRST_UNCOVERED = _attr("mooncake.buffer.first_uncovered", "int", "address of the first such buffer")
RANGES = _attr("mooncake.buffer.ranges", "int", "registered ranges that the buffers were compared with")
REPLICA = _attr("mooncake.replica.endpoint", "str", "where the object's replica lies, as the master tells")

FORCE = _attr("mooncake.force", "bool", "leases were ignored")

# --- attributes: request --------------------------------------------------------------------------------------------
PROMPT_TOKENS = _attr("hicache.request.prompt_tokens", "int", "tokens of the prompt", "{token}")
OUTPUT_TOKENS = _attr("hicache.request.output_tokens", "int", "tokens that the request had produced", "{token}")
RETRACTED = _attr("hicache.request.retracted", "bool", "the request came back to the queue after a retraction")
EXTRA_KEY = _attr("hicache.request.extra_key", "bool", "the request has an extra key (LoRA, cache salt)")
NAMESPACE = _attr("hicache.request.namespace", "int", "which extra key: numbered as they come in one process, 0 for none; the key itself stays there")
MATCH_OFF = _attr("hicache.match.off", "str", "what switches prefix matching off for this request")
REUSE_END = _attr("hicache.request.reuse_end", "int", "tokens that may be reused at most: the prompt less its last token", "{token}")
PROMPT_PAGE_KEYS = _attr("hicache.request.page_keys", "str", "page keys of every full page of the prompt, 64 hex digits each")
FINGERPRINT = _attr("hicache.request.fingerprint", "str", "prefix fingerprint: a hash chain over blocks of 16 tokens, 16 hex digits a block")
MATCHED_DEVICE = _attr("hicache.match.device", "int", "prefix tokens found on the device", "{token}")
MATCHED_HOST = _attr("hicache.match.host", "int", "prefix tokens found in the host pool only", "{token}")
ASKED_TOKENS = _attr("hicache.prefetch.asked", "int", "page-aligned tokens that a lookup would ask for", "{token}")
ACCEPTED_TOKENS = _attr("hicache.prefetch.accepted", "int", "tokens that the accepted prefetch asks for", "{token}")
HIT_TOKENS = _attr("hicache.prefetch.hit", "int", "contiguous tokens that this rank found", "{token}")
AGREED_TOKENS = _attr("hicache.prefetch.agreed", "int", "tokens that all ranks agreed to read", "{token}")
DONE_TOKENS = _attr("hicache.prefetch.done", "int", "tokens read completely", "{token}")
INSERTED_MATCHED = _attr("hicache.publish.matched", "int", "tokens that were in the tree already", "{token}")
LOADED_TOKENS = _attr("hicache.load_back.tokens", "int", "tokens loaded back to the device", "{token}")
QUOTA = _attr("hicache.load_back.quota", "int", "tokens that the load was allowed, where its caller gave a limit", "{token}")
DEVICE_FREE = _attr("hicache.device.free", "int", "free tokens in the device pool when asked", "{token}")
DEVICE_EVICTABLE = _attr("hicache.device.evictable", "int", "tokens that eviction could free", "{token}")
BUDGET = _attr("hicache.admission.budget", "int", "tokens that the prefill budget had left", "{token}")
NEEDED = _attr("hicache.admission.needed", "int", "tokens that the request needs", "{token}")
ADMITTED = _attr("hicache.admission.admitted", "bool", "the request is in the batch")
ADMISSION_RESULT = _attr("hicache.admission.result", "str", "continue, no_token or other")
ANCHOR = _attr("hicache.prefetch.anchor", "str", "page key that the lookup continues from; absent at the root")
TERMINATED = _attr("hicache.prefetch.terminated", "bool", "the operation had been ended before all pages were read")
WAITED = _attr("hicache.prefetch.waited", "float", "time since admission first waited for the prefetch", "s")
ATTEMPT = _attr("hicache.request.attempt", "int", "attempt that the engine itself counts for this request id")
RETRY = _attr("hicache.prefetch.retry", "int", "lookups that were repeated for this request so far")
ENGINE_REASON = _attr("hicache.prefetch.engine_reason", "str", "why the engine says that the tokens are of no use, in its own word")
EXCEPTION = _attr("hicache.prefetch.exception", "str", "exception that the engine caught and counted as no page")
SECONDS = _attr("hicache.prefetch.seconds", "float", "time since the prefetch was enqueued", "s")
PREFIX_TOKENS = _attr("hicache.prefill.prefix", "int", "tokens that the prefill batch carried as prefix", "{token}")
EXTEND_TOKENS = _attr("hicache.prefill.extend", "int", "tokens that the prefill batch computes for this request", "{token}")
FIRST_CHUNK = _attr("hicache.prefill.first", "bool", "first prefill of this request")
BATCH = _attr("hicache.batch.id", "int", "prefill batch, counted in one process")
PRODUCER = _attr("hicache.load_back.index", "int", "consumer index of the batch: ties it to the load that it waits for; -1 for none")
CLAIM_DEVICE = _attr("hicache.claim.device", "int", "tokens that the engine itself credits to the device", "{token}")
CLAIM_HOST = _attr("hicache.claim.host", "int", "tokens that the engine itself credits to the host", "{token}")
CLAIM_STORAGE = _attr("hicache.claim.storage", "int", "tokens that the engine itself credits to storage", "{token}")
CACHED_TOKENS = _attr("hicache.claim.cached", "int", "cached_tokens that the engine returns", "{token}")
NODES = _attr("hicache.nodes", "ints", "tree nodes of one copy")
QUEUE = _attr("hicachectl.queue", "int", "operations waiting in the thread's queue")

# --- attributes: write and evict ------------------------------------------------------------------------------------
CHUNKED = _attr("hicache.insert.chunked", "bool", "insert of a chunk that is not the last")
HIT_COUNT = _attr("hicache.node.hits", "int", "hit count of the first node without a host copy")
WRITTEN_TOKENS = _attr("hicache.write.tokens", "int", "tokens copied or written", "{token}")
PARENT_BACKED = _attr("hicache.write.parent_backed", "bool", "the parent has a host copy")
HOST_FREE = _attr("hicache.host.free", "int", "free tokens in the host pool", "{token}")
WRITE_BACK = _attr("hicache.write.on_eviction", "bool", "the copy was made because the node is evicted")
BACKUP_SKIP = _attr("hicache.write.skip", "bool", "this rank does not write: KV is replicated and another rank does")
EVICT_ASKED = _attr("hicache.evict.asked", "int", "tokens asked to be freed", "{token}")
EVICT_FREED = _attr("hicache.evict.freed", "int", "tokens freed", "{token}")
EVICT_LOST = _attr("hicache.evict.unbacked", "int", "tokens dropped without a host copy", "{token}")
IN_FLIGHT = _attr("hicache.in_flight", "int", "prefetches, backups and copies that were running")

# --- attributes: samples of the master --------------------------------------------------------------------------------
SAMPLE_KEYS = _attr("mooncake.sample.keys", "int", "objects in the store", "{object}")
SAMPLE_EVICTED = _attr("mooncake.sample.evicted", "int", "objects evicted since the master started", "{object}")
SAMPLE_FAILURES = _attr("mooncake.sample.failures", "int", "failed operations since the master started")
SAMPLE_USED = _attr("mooncake.sample.used", "int", "bytes in use", "By")
SAMPLE_CAPACITY = _attr("mooncake.sample.capacity", "int", "bytes of all mounted segments", "By")
SAMPLE_SEGMENTS = _attr("mooncake.sample.segments", "int", "mounted segments")

# --- metrics --------------------------------------------------------------------------------------------------------
D_TIER = _dimension("hicache.tier", "device, host or storage: where the tokens lay when the request came; computed: nowhere, or they were computed all the same")
D_DIRECTION = _dimension("hicache.direction", "write or read, as the store sees it")
D_OPERATION = _dimension("mooncake.operation", "put, get, exist, setup or register_buffer")
D_RESULT = _dimension("mooncake.result", "ok, absent (of exist), short (fewer bytes than asked), raised, or the negative code")
D_REASON = _dimension("hicache.skip.reason", "id of the skip reason, as `hicachectl.reason` of the span")
D_STEP = _dimension("hicache.step", "name of the span that tells the reason: a reason may be told by more than one step of a request")
D_FATE = _dimension("hicachectl.fate", "written (the files hold it), dropped (nobody has it) or unsent (written, and the collector did not get it)")
D_CODE = _dimension("hicachectl.code", "code of a loss, such as HC-R12")
D_LEVEL = _dimension("hicachectl.level", "error, warning or info")

M_REQUESTS = _metric("hicache.requests", COUNTER, "{request}", SAME, "requests whose first prefill was prepared, health checks excepted")
M_TOKENS = _metric("hicache.request.tokens", COUNTER, "{token}", SAME, "prompt tokens of those requests, by the tier that they were reused from", D_TIER)
M_PAGES = _metric("hicache.storage.pages", COUNTER, "{page}", SAME, "pages that storage operations wrote or read", D_DIRECTION)
M_BYTES = _metric("mooncake.io", COUNTER, "By", ADDS, "bytes that the store client moved", D_DIRECTION)
M_OBJECTS = _metric("mooncake.operation.objects", COUNTER, "{object}", ADDS, "objects that were asked for, by what became of each", D_OPERATION, D_RESULT)
M_CALLS = _metric("mooncake.operation.duration", HISTOGRAM, "s", ADDS, "calls of the store client", D_OPERATION)
M_LOOKUP = _metric("hicache.lookup.duration", HISTOGRAM, "s", SAME, "lookups: how many pages of a prompt the store has")
M_TRANSFER = _metric("hicache.transfer.duration", HISTOGRAM, "s", SAME, "transfers from the store into the host pool")
M_LOAD_BACK = _metric("hicache.load_back.duration", HISTOGRAM, "s", SAME, "copies from the host pool to the device, until they were acknowledged")
M_WRITE = _metric("hicache.write.duration", HISTOGRAM, "s", SAME, "writes of an operation's pages to the store")
M_OCCUPIED = _metric("hicache.prefetch.usage", GAUGE, "{token}", SAME, "tokens that running prefetches occupied when the latest one was asked for")
M_LIMIT = _metric("hicache.prefetch.limit", GAUGE, "{token}", SAME, "tokens that running prefetches may occupy")
M_SKIPS = _metric("hicache.skips", COUNTER, "{skip}", SAME, "steps that were skipped or cut short for a reason that the process itself could tell", D_STEP, D_REASON)
M_EVICTED = _metric("hicache.evicted.tokens", COUNTER, "{token}", SAME, "tokens that evictions freed, by tier", D_TIER)
M_UNBACKED = _metric("hicache.unbacked.tokens", COUNTER, "{token}", SAME, "tokens that were dropped from the device without a host copy")
M_SPANS = _metric("hicachectl.spans", COUNTER, "{span}", ADDS, "spans of this process, by what became of them", D_FATE)
M_FAULTS = _metric("hicachectl.faults", COUNTER, "{fault}", ADDS, "faults of the tracers themselves, each swallowed")
M_LOST = _metric("hicache.lost.tokens", COUNTER, "{token}", WHOLE, "tokens that the store had and that were computed all the same, of finished requests, by code", D_CODE)
M_FINDINGS = _metric("hicachectl.findings", GAUGE, "{finding}", WHOLE, "findings so far, by level", D_LEVEL)
M_JUDGED = _metric("hicachectl.judged", GAUGE, "", WHOLE, "1 while losses and findings are worked out beside the engine; 0 once the recording is too long for it")
BY_DIAGNOSIS = (M_LOST, M_FINDINGS, M_JUDGED)
"""Metrics that need the diagnosis: the engine cannot tell them of itself."""
DEVICE_TIER, HOST_TIER, STORAGE_TIER, COMPUTED = "device", "host", "storage", "computed"
WRITE, READ = "write", "read"
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of every histogram, in seconds."""
R_INSTANCE = "service.instance.id"
"""Of metrics alone, unless OTEL_RESOURCE_ATTRIBUTES names one: the engine id, for each stream of points needs a writer of its own."""

LATE = "late"
"""Place of a value that expands to several attributes when it is written; never a key of its own."""

# --- enum values ----------------------------------------------------------------------------------------------------
OK = "ok"
FAILED = "failed"
DECLINED = "declined"
FINGERPRINT_BLOCK = 16
"""Tokens in a block of the prefix fingerprint."""
FINGERPRINT_DIGITS = 16
PAGE_KEY_DIGITS = 64
HEALTH_RID_PREFIX = "HEALTH_CHECK"
"""Request ids of health checks start with this (SGLang `srt/constants.py`, HEALTH_CHECK_RID_PREFIX)."""
