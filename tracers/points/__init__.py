"""Rows only: what is hooked, one file a layer."""

from tracers.point import Point
from tracers.points import backend, buffers, evict, keys, load_back, mooncake, pools, prefetch, reuse, write

ALL: tuple[Point, ...] = (
    *backend.POINTS,
    *buffers.POINTS,
    *mooncake.POINTS,
    *keys.POINTS,
    *write.POINTS,
    *pools.POINTS,
    *prefetch.POINTS,
    *load_back.POINTS,
    *reuse.POINTS,
    *evict.POINTS,
)
"""Every hook point, in the order in which a prefix travels."""
