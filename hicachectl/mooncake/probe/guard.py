"""Whether the store and this host have room for the probe's objects without pushing out somebody's."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Guard:
    """The decision whether to put; `why` tells the operator where it is no."""

    may_put: bool
    why: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of this host's memory that the probe's own buffers take, and that are available. `available` 0: unknown."""

    needed: int = 0
    available: int = 0


def decide(sample: dict[str, int | float] | None, wanted: int, watermark: float, why_unknown: str = "", memory: Memory = Memory()) -> Guard:
    """Whether WANTED more bytes keep the store at or below WATERMARK (0..1) of its capacity, and MEMORY is there for the buffers.

    A store without capacity has nothing to evict: the put is allowed, and the store refuses it. Where the gauges are unknown the answer
    is no: a probe never evicts. Nor does it take the last memory of a host, where the kernel would end the engine to make room.
    """
    if memory.available and memory.needed > memory.available:
        return Guard(
            may_put=False,
            why=(
                f"nothing was put: the probe's own buffers would take {memory.needed} bytes of memory, and this host has {memory.available} available; "
                "a kernel without memory ends processes, an engine among them"
            ),
            next="Probe with fewer or smaller objects (--pages, --size).",
        )
    if sample is None:
        return Guard(
            may_put=False,
            why=f"nothing was put, because the store's fullness is unknown: {why_unknown}",
            next="Name the master's admin port with --admin URL (MOONCAKE_MASTER_METRICS_PORT for good).",
        )
    capacity, used = sample["capacity_bytes"], sample["used_bytes"]
    if capacity == 0 or used + wanted <= watermark * capacity:
        return Guard(may_put=True)
    return Guard(
        may_put=False,
        why=(
            f"nothing was put: {used:.0f} of {capacity:.0f} bytes are in use ({used / capacity:.1%}), and {wanted} more would pass the watermark of "
            f"{watermark:.0%}, where the master evicts other objects; beyond it a put is refused with -200 NO_AVAILABLE_HANDLE"
        ),
        next="Probe with fewer or smaller objects (--pages, --size), or give the store more memory; --watermark says where this master evicts.",
    )


def described(guard: Guard, wanted: int, watermark: float) -> dict[str, Any]:
    """The decision for the report."""
    return {"may_put": guard.may_put, "wanted_bytes": wanted, "watermark": watermark, "why": guard.why}
