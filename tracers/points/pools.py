"""Rows of the pools beside the KV pool: written, found and read through interfaces of their own."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import STORE
from tracers.read import pools as read

POINTS: tuple[Point, ...] = (
    Point(
        id="pools.write",
        layer="write",
        doc="pages of the side pools that were written, of each pool",
        targets=(Target(f"{STORE}.batch_set_v2", ("self", "transfers")),),
        span=v.WRITE_POOLS,
        attributes=(v.OUTCOME, v.POOL_PAGES, v.POOL_SHORT, v.ERROR_TEXT),
        after=read.moved,
    ),
    Point(
        id="pools.find",
        layer="prefetch",
        doc="how far each pool reaches into the prefix, and the pool that shortens it",
        targets=(Target(f"{STORE}.batch_exists_v2", ("self", "keys", "pool_transfers")),),
        span=v.PREFETCH_POOLS,
        attributes=(v.OUTCOME, v.PAGES, v.FOUND_PAGES, v.POOL_PAGES, v.POOL_SHORT, v.ERROR_TEXT),
        after=read.found,
    ),
    Point(
        id="pools.read",
        layer="prefetch",
        doc="pages of the side pools that were read, of each pool",
        targets=(Target(f"{STORE}.batch_get_v2", ("self", "transfers")),),
        span=v.PREFETCH_POOLS_READ,
        attributes=(v.OUTCOME, v.POOL_PAGES, v.POOL_SHORT, v.ERROR_TEXT),
        after=read.moved,
    ),
)
