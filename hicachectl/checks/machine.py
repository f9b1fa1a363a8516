"""Readings of this machine: limits, memory, huge pages, RDMA devices (Linux: proc(5), sysfs)."""

import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FIELD = re.compile(r"^(\w+):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Port:
    """One port of an RDMA device, as the kernel describes it."""

    device: str
    port: str
    state: str
    link_layer: str
    rate: str

    @property
    def active(self) -> bool:
        """Whether traffic can flow."""
        return "ACTIVE" in self.state


@dataclass(frozen=True, slots=True)
class Machine:
    """What limits a client of the store here. `memlock` None: no limit."""

    memlock: int | None
    memory_available: int
    huge_pages_free: int
    huge_page_bytes: int
    ports: tuple[Port, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the RDMA devices."""
        return tuple(dict.fromkeys(port.device for port in self.ports))


def look(root: Path = Path("/")) -> Machine:
    """Read this machine, its files under ROOT."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    memory = _memory(root / "proc/meminfo")
    return Machine(
        memlock=None if soft == resource.RLIM_INFINITY else soft,
        memory_available=memory.get("MemAvailable", 0) << 10,
        huge_pages_free=memory.get("HugePages_Free", 0),
        huge_page_bytes=memory.get("Hugepagesize", 0) << 10,
        ports=tuple(_ports(root / "sys/class/infiniband")),
    )


def _memory(path: Path) -> dict[str, int]:
    try:
        return {name: int(value) for name, value in _FIELD.findall(path.read_text())}
    except OSError:
        return {}


def _ports(folder: Path) -> Iterator[Port]:
    for device in sorted(folder.glob("*")):
        for port in sorted(device.glob("ports/*")):
            yield Port(device.name, port.name, _line(port / "state"), _line(port / "link_layer"), _line(port / "rate"))


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
