"""May as much memory be locked as would be registered; RDMA needs it, TCP does not."""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.result import Result, error, ok
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.client import LOCAL_BUFFER


def look(scene: Scene) -> Iterator[Result]:
    """Segment, staging buffer and, where its size is given, the host pool of one rank against the limit."""
    config = scene.config
    if config is None:
        return
    given, limit = scene.arguments, scene.machine.memlock
    pool = given["hicache_size"] * 10**9 if given["enable_hierarchical_cache"] else 0
    needed = config.segment_per_rank(given["tp_size"], given["pp_size"]) + LOCAL_BUFFER + pool
    facts: dict[str, Any] = {
        "limit": "unlimited" if limit is None else limit,
        "to_register_per_rank": needed,
        "host_pool_counted": bool(pool),
    }
    over_rdma = config.protocol.value == "rdma" and bool(scene.machine.ports)
    if limit is None:
        yield ok("Locked memory is not limited.", **facts)
    elif not over_rdma:
        yield ok("Nothing needs to be locked: the transport will be tcp.", **facts)
    elif limit < needed:
        yield error(
            f"At most {limit} bytes may be locked, and a rank would register {needed}{'' if pool else ' and its host pool'}.",
            "",
            "ulimit -l unlimited (LimitMEMLOCK=infinity in a unit, --ulimit memlock=-1 for a container).",
            **facts,
        )
    else:
        yield ok(
            f"{limit} bytes may be locked, and a rank would register {needed}{'' if pool else ' and its host pool'}.",
            **facts,
        )
