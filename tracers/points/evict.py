"""Rows of eviction, flush, reset and clear."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import CONTROLLER, NEW, RADIX, SCHEDULER, SPLIT, UNIFIED
from tracers.read import evict as read

POINTS: tuple[Point, ...] = (
    Point(
        id="evict.device",
        layer="evict",
        doc="device tokens asked, freed, and dropped without a host copy",
        targets=(
            Target(f"{RADIX}.evict", ("self", "params"), until=SPLIT),
            Target(f"{UNIFIED}.evict", ("self", "params")),
            Target(f"{UNIFIED}.evict_for_alloc", ("self", "params"), since=NEW),
        ),
        span=v.EVICT_DEVICE,
        attributes=(v.OUTCOME, v.EVICT_ASKED, v.EVICT_FREED, v.EVICT_LOST, v.REASON),
        after=read.device,
        carries=True,
    ),
    Point(
        id="evict.dropped",
        layer="evict",
        doc="a node without a host copy is dropped: counted for the eviction around it",
        targets=(
            Target(f"{RADIX}._evict_regular", ("self", "node"), until=SPLIT),
            Target(f"{UNIFIED}._record_dropped_tokens", ("self", "dropped_tokens", "reason"), since=NEW, before=read.record_dropped),
        ),
        after=read.dropped,
    ),
    Point(
        id="evict.subtree",
        layer="evict",
        doc="write_back drops a subtree for which the host had no room, or may not: counted for the eviction around it",
        targets=(Target(f"{UNIFIED}._drop_subtree_no_host", ("self", "node_id"), since=NEW),),
        after=read.subtree_dropped,
    ),
    Point(
        id="evict.leaf",
        layer="evict",
        doc="a leaf of the unified tree leaves the device: counted for the eviction around it",
        targets=(Target(f"{UNIFIED}._evict_device_leaf", ("self", "node"), until=SPLIT),),
        before=read.before_leaf,
        after=read.leaf,
    ),
    Point(
        id="evict.host",
        layer="evict",
        doc="host tokens asked and freed",
        targets=(Target(f"{RADIX}.evict_host", ("self", "num_tokens"), until=SPLIT), Target(f"{UNIFIED}.evict_host", ("self", "num_tokens"))),
        span=v.EVICT_HOST,
        attributes=(v.OUTCOME, v.EVICT_ASKED, v.EVICT_FREED),
        after=read.host,
        carries=True,
    ),
    Point(
        id="evict.host_freed",
        layer="evict",
        doc="the controller frees host tokens: counted for the eviction around it",
        targets=(Target(f"{CONTROLLER}.evict_host", ("self", "host_indices")),),
        after=read.host_freed,
    ),
    Point(
        id="evict.flush",
        layer="evict",
        doc="the engine's caches are flushed",
        targets=(Target(f"{SCHEDULER}.flush_cache", ("self",)),),
        span=v.FLUSH,
        attributes=(v.OUTCOME,),
        after=read.flushed,
        carries=True,
    ),
    Point(
        id="evict.reset",
        layer="evict",
        doc="the tree is reset: what was in flight",
        targets=(Target(f"{RADIX}.reset", ("self",), until=SPLIT), Target(f"{UNIFIED}.reset", ("self",))),
        span=v.RESET,
        attributes=(v.OUTCOME, v.IN_FLIGHT, v.REASON),
        before=read.before_reset,
        after=read.reset,
    ),
    Point(
        id="evict.clear_storage",
        layer="evict",
        doc="the engine asks the backend to remove everything, and what it answers",
        targets=(
            Target(f"{RADIX}.clear_storage_backend", ("self",), until=SPLIT),
            Target(f"{UNIFIED}.clear_storage_backend", ("self",)),
        ),
        span=v.STORAGE_CLEAR,
        attributes=(v.OUTCOME, v.MESSAGE),
        after=read.cleared,
        carries=True,
    ),
)
