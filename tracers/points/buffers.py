"""Rows of buffer registration."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import STORE
from tracers.read import mooncake as read

TRANSFER_ENGINE = "sglang.srt.distributed.device_communicators.mooncake_transfer_engine:MooncakeTransferEngine.batch_register"

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
    Point(
        id="disaggregation.register",
        layer="buffers",
        doc="buffers of a prefill or decode engine are registered; what comes back is looked at by nobody",
        targets=(Target(TRANSFER_ENGINE, ("self", "ptrs", "lengths")),),
        span=v.PD_REGISTER,
        attributes=(v.OUTCOME, v.CODE, v.OBJECTS, v.BYTES, v.MEMLOCK, v.ERROR_TEXT),
        after=read.batch_registered,
    ),
)
