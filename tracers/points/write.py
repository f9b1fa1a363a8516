"""Rows of the write path: L1 to L2 to L3."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import CONTROLLER, HYBRID, NEW, RADIX, SPLIT, UNIFIED
from tracers.read import write as read
from tracers.read import write_23

BASE_TREE = "sglang.srt.mem_cache.radix_cache:RadixCache"
OPERATION = "sglang.srt.managers.cache_controller:StorageOperation"
WRITTEN = ("written",)

POINTS: tuple[Point, ...] = (
    Point(
        id="write.insert",
        layer="write",
        doc="a request's tokens enter the tree while it runs: the place where write work is tied to a request",
        targets=(
            Target(f"{BASE_TREE}.cache_unfinished_req", ("self", "req"), until=SPLIT),
            Target(f"{UNIFIED}.cache_unfinished_req", ("self", "req"), until=SPLIT),
            Target(f"{UNIFIED}.checkpoint_into_tree", ("self", "req"), since=NEW, before=write_23.before_inserted, after=write_23.inserted),
        ),
        span=v.WRITE_INSERT,
        attributes=(v.OUTCOME, v.TOKENS, v.CHUNKED),
        after=read.inserted,
        rid=read.request,
        carries=True,
    ),
    Point(
        id="request.finished",
        layer="write",
        doc="a request ends: its tokens enter the tree, and what the engine returns as cached tokens",
        targets=(
            Target(f"{BASE_TREE}.cache_finished_req", ("self", "req"), until=SPLIT),
            Target(f"{UNIFIED}.cache_finished_req", ("self", "req"), until=SPLIT),
            Target(f"{UNIFIED}.checkpoint_into_tree", ("self", "req"), since=NEW, before=write_23.before_finished),
            Target(f"{UNIFIED}.on_release", ("self", "req"), since=NEW, before=write_23.before_released),
        ),
        span=v.REQUEST_FINISHED,
        attributes=(
            v.OUTCOME, v.PROMPT_TOKENS, v.OUTPUT_TOKENS, v.CACHED_TOKENS, v.CLAIM_DEVICE, v.CLAIM_HOST, v.CLAIM_STORAGE, v.RETRACTED,
        ),
        after=read.finished,
        rid=read.request,
        carries=True,
    ),
    Point(
        id="write.backup",
        layer="write",
        doc="a node is to be copied to the host; 0 tokens is a skip with its reason",
        targets=(
            Target(f"{RADIX}.write_backup", ("self", "node"), until=SPLIT),
            Target(f"{UNIFIED}.write_backup", ("self", "node"), until=SPLIT),
            Target(
                f"{UNIFIED}._execute_kv_backup",
                ("self", "node_id", "device_value"),
                since=NEW,
                before=write_23.before_backup,
                after=write_23.backed_up,
            ),
        ),
        span=v.WRITE_BACKUP,
        attributes=(
            v.OUTCOME, v.NODE, v.TOKENS, v.WRITTEN_TOKENS, v.PARENT_BACKED, v.HOST_FREE, v.HIT_COUNT, v.WRITE_BACK, v.POOL_SHORT, v.REASON, v.PAGE_KEYS,
        ),
        before=read.before_backup,
        after=read.backed_up,
        carries=True,
        rungs=WRITTEN,
    ),
    Point(
        id="write.host_alloc",
        layer="write",
        doc="host memory for a node: counted for the backup around it",
        targets=(Target(f"{CONTROLLER}.write", ("self", "device_indices")), Target(f"{HYBRID}.write", ("self", "device_indices"))),
        after=read.host_allocated,
    ),
    Point(
        id="write.host_done",
        layer="write",
        doc="the copy of a node to the host has finished",
        targets=(
            Target(f"{RADIX}._finish_write_through_ack", ("self", "ack_id"), until=SPLIT),
            Target(f"{UNIFIED}._finish_write_through_ack", ("self", "ack_id"), until=SPLIT),
            Target(
                f"{UNIFIED}._finish_write_through_ack",
                ("self", "ack_id"),
                since=NEW,
                before=write_23.before_acknowledged,
                after=write_23.acknowledged,
                rid=write_23.acknowledged_rid,
            ),
        ),
        span=v.WRITE_HOST_DONE,
        attributes=(v.OUTCOME, v.NODE, v.TOKENS),
        before=read.before_acknowledged,
        after=read.acknowledged,
        rid=read.acknowledged_rid,
        carries=True,
    ),
    Point(
        id="write.enqueue",
        layer="write",
        doc="pages of a node are queued for the store",
        targets=(
            Target(f"{CONTROLLER}.write_storage", ("self", "host_indices", "token_ids", "hash_value")),
            Target(f"{HYBRID}.write_storage", ("self", "host_indices", "token_ids", "hash_value")),
        ),
        span=v.WRITE_ENQUEUE,
        attributes=(v.OUTCOME, v.OPERATION, v.PAGES, v.BACKUP_SKIP, v.QUEUE, v.REASON, v.PAGE_KEYS),
        after=read.enqueued,
        carries=True,
        once=True,
        rungs=WRITTEN,
    ),
    Point(
        id="write.unqueued",
        layer="write",
        doc="a copied node that the tree does not queue for the store",
        targets=(Target(f"{UNIFIED}.write_backup_storage", ("self", "node_id"), since=NEW),),
        span=v.WRITE_ENQUEUE,
        attributes=(v.OUTCOME, v.OPERATION, v.PAGES, v.BACKUP_SKIP, v.QUEUE, v.REASON, v.PAGE_KEYS),
        after=write_23.unqueued,
        carries=True,
    ),
    Point(
        id="write.operation",
        layer="write",
        doc="a storage operation remembers the request it serves",
        targets=(Target(f"{OPERATION}.__init__", ("self", "host_indices", "token_ids")),),
        after=read.remember_operation,
    ),
    Point(
        id="write.store",
        layer="write",
        doc="the backup thread writes the pages of one operation; the acknowledgement comes either way",
        targets=(Target(f"{CONTROLLER}._page_backup", ("self", "operation")), Target(f"{HYBRID}._page_backup", ("self", "operation"))),
        span=v.WRITE_STORE,
        attributes=(v.OUTCOME, v.OPERATION, v.PAGES, v.WRITTEN_TOKENS, v.QUEUE, v.REASON, v.ERROR_TEXT),
        after=read.stored,
        rid=read.operation_rid,
        carries=True,
        once=True,
        rungs=WRITTEN,
    ),
    Point(
        id="write.thread",
        layer="write",
        doc="witness of the backup thread's end",
        targets=(Target(f"{CONTROLLER}.backup_thread_func", ("self",)), Target(f"{HYBRID}.backup_thread_func", ("self",), since=NEW)),
        span=v.WRITE_THREAD,
        attributes=(v.OUTCOME, v.QUEUE, v.ERROR_TEXT),
        after=read.thread_ended,
    ),
)
