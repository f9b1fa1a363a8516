"""Rows at the Mooncake binding: native methods, wrapped on their class, so every user in the process is seen."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.read import backend
from tracers.read import mooncake as read

CLASS = "mooncake.store:MooncakeDistributedStore"


def _native(*names: str) -> tuple[Target, ...]:
    """Targets at the binding; their signatures cannot be read."""
    return tuple(Target(f"{CLASS}.{name}", package="mooncake", since="0.3.11") for name in names)


BATCH = (v.OUTCOME, v.OBJECTS, v.LATE, v.ERROR_TEXT)

POINTS: tuple[Point, ...] = (
    Point(
        id="mooncake.setup",
        layer="mooncake",
        doc="the client connects: code, protocol asked and possible",
        targets=_native("setup", "setup_dummy"),
        span=v.STORE_SETUP,
        attributes=(v.OUTCOME, v.CODE, v.MASTER, v.PROTOCOL, v.PROTOCOL_IN_USE, v.RDMA_DEVICES, v.SEGMENT_SIZE, v.NAMES, v.ERROR_TEXT),
        after=backend.store_set_up,
        rungs=("backend_created",),
    ),
    Point(
        id="mooncake.register_buffer",
        layer="buffers",
        doc="address range, size and code of a registration",
        targets=_native("register_buffer"),
        span=v.BUFFER_REGISTER,
        attributes=(v.OUTCOME, v.CODE, v.ADDRESS, v.BYTES, v.MEMLOCK),
        after=read.registered,
        rungs=("backend_created",),
    ),
    Point(
        id="mooncake.unregister_buffer",
        layer="buffers",
        doc="a range is taken back",
        targets=_native("unregister_buffer"),
        span=v.BUFFER_UNREGISTER,
        attributes=(v.OUTCOME, v.CODE, v.ADDRESS),
        after=read.unregistered,
    ),
    Point(
        id="mooncake.batch_exist",
        layer="mooncake",
        doc="existence of each object",
        targets=_native("batch_is_exist"),
        span=v.STORE_EXIST,
        attributes=BATCH,
        after=read.batch_existed,
        rungs=("found", "written"),
    ),
    Point(
        id="mooncake.batch_put",
        layer="mooncake",
        doc="code of each object put, bytes, pointers against the registered ranges",
        targets=_native("batch_put_from", "batch_put_from_multi_buffers"),
        span=v.STORE_PUT,
        attributes=BATCH,
        after=read.batch_put,
        rungs=("written",),
    ),
    Point(
        id="mooncake.batch_get",
        layer="mooncake",
        doc="bytes or code of each object read, pointers against the registered ranges",
        targets=_native("batch_get_into", "batch_get_into_multi_buffers"),
        span=v.STORE_GET,
        attributes=BATCH,
        before=read.get_begins,
        after=read.batch_got,
        rungs=("transfer_done",),
    ),
    Point(
        id="mooncake.exist",
        layer="mooncake",
        doc="existence of one object",
        targets=_native("is_exist"),
        span=v.STORE_EXIST,
        attributes=BATCH,
        after=read.single_existed,
    ),
    Point(
        id="mooncake.put",
        layer="mooncake",
        doc="one object put",
        targets=_native("put"),
        span=v.STORE_PUT,
        attributes=BATCH,
        after=read.single_put,
    ),
    Point(
        id="mooncake.get",
        layer="mooncake",
        doc="one object read",
        targets=_native("get"),
        span=v.STORE_GET,
        attributes=BATCH,
        after=read.single_got,
    ),
    Point(
        id="mooncake.remove_all",
        layer="mooncake",
        doc="everything is removed that no lease holds",
        targets=_native("remove_all"),
        span=v.STORE_REMOVE,
        attributes=(v.OUTCOME, v.CODE, v.FORCE),
        after=read.removed,
    ),
    Point(
        id="mooncake.close",
        layer="mooncake",
        doc="the client is closed",
        targets=_native("close"),
        span=v.STORE_CLOSE,
        attributes=(v.OUTCOME, v.ERROR_TEXT),
        after=backend.plain,
    ),
)
