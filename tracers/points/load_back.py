"""Rows of the way from host to device: L2 to L1."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import CONTROLLER, HYBRID, NEW, RADIX, SPLIT, UNIFIED
from tracers.read import load_back as read

LOADED = ("loaded_back",)

POINTS: tuple[Point, ...] = (
    Point(
        id="load_back.ask",
        layer="load_back",
        doc="admission asks for host pages: tokens promised and tokens that came",
        targets=(Target(f"{RADIX}.init_load_back", ("self", "params"), until=SPLIT), Target(f"{UNIFIED}.init_load_back", ("self", "params"))),
        span=v.LOAD_BACK_ASK,
        attributes=(v.OUTCOME, v.MATCHED_HOST, v.LOADED_TOKENS, v.REASON),
        after=read.asked,
        rid=read.asked_rid,
        carries=True,
        rungs=LOADED,
    ),
    Point(
        id="load_back.load",
        layer="load_back",
        doc="the tree loads back or declines: threshold, free and evictable tokens",
        targets=(
            Target(f"{RADIX}.load_back", ("self", "node"), until=SPLIT),
            Target(f"{UNIFIED}.load_back", ("self", "best_match_node"), until=SPLIT),
            Target(f"{UNIFIED}.load_back", ("self", "node_id"), since=NEW, before=read.node_load),
        ),
        span=v.LOAD_BACK,
        attributes=(
            v.OUTCOME, v.NODE, v.TOKENS, v.LOADED_TOKENS, v.LOAD_BACK_THRESHOLD, v.DEVICE_FREE, v.DEVICE_EVICTABLE, v.QUOTA, v.POOL_SHORT, v.REASON,
        ),
        before=read.before_load,
        after=read.load,
        carries=True,
        rungs=LOADED,
    ),
    Point(
        id="load_back.device_alloc",
        layer="load_back",
        doc="device memory for host pages: counted for the load-back around it",
        targets=(Target(f"{CONTROLLER}.load", ("self", "host_indices")), Target(f"{HYBRID}.load", ("self", "host_indices"))),
        after=read.device_allocated,
    ),
    Point(
        id="load_back.start",
        layer="load_back",
        doc="copies from host to device are issued under an index",
        targets=(Target(f"{CONTROLLER}.start_loading", ("self",)), Target(f"{HYBRID}.start_loading", ("self",), until=SPLIT)),
        span=v.LOAD_BACK_START,
        attributes=(v.OUTCOME, v.PRODUCER, v.NODES, v.TOKENS),
        before=read.before_start,
        after=read.start,
        once=True,
        carries=True,
        rungs=LOADED,
    ),
    Point(
        id="load_back.done",
        layer="load_back",
        doc="copies from host to device are acknowledged",
        targets=(Target(f"{RADIX}.loading_check", ("self",), until=SPLIT), Target(f"{UNIFIED}.loading_check", ("self",))),
        span=v.LOAD_BACK_DONE,
        attributes=(v.OUTCOME, v.NODES, v.TOKENS),
        before=read.before_done,
        after=read.done,
        rungs=LOADED,
    ),
)
