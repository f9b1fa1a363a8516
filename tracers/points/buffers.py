"""Rows of buffer registration."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import STORE
from tracers.read import mooncake as read

POINTS: tuple[Point, ...] = (
    Point(
        id="buffers.pool",
        layer="buffers",
        doc="a host pool is handed to the backend; one without memory of its own is skipped",
        targets=(
            Target(f"{STORE}.register_mem_pool_host", ("self", "mem_pool_host")),
            Target(f"{STORE}.register_mem_host_pool_v2", ("self", "host_pool", "host_pool_name")),
        ),
        span=v.BUFFER_POOL,
        attributes=(v.OUTCOME, v.POOL, v.POOL_CLASS, v.REASON, v.ERROR_TEXT),
        after=read.pool_handed,
        carries=True,
        rungs=("backend_created",),
    ),
)
