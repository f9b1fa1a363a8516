"""How much memory each rank lends to the store, and whether others can reach it."""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.exits import OperatorError
from hicachectl.mooncake.master import host_of
from hicachectl.mooncake.probe.processes import is_here

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


def look(scene: Scene) -> Iterator[Result]:
    """The segment is divided among the ranks; all of it must fit into memory, and its owner needs an address that others know."""
    config, given = scene.config, scene.arguments
    if config is None:
        return
    whole, ranks = config.global_segment_size.value, given.ranks
    each = config.segment_per_rank(given["tp_size"], given["pp_size"])
    total = each * ranks
    facts: dict[str, Any] = {
        "global_segment_size": whole,
        "origin": config.global_segment_size.origin,
        "ranks": ranks,
        "per_rank": each,
    }
    if whole < 0:
        yield error(
            f"global_segment_size is {whole}.",
            "",
            "A size of 0 lends nothing; else bytes, or whole gigabytes as in 4gb.",
            **facts,
        )
    elif each == 0:
        yield info("This engine lends no memory to the store: others must.", **facts)
    elif total > scene.machine.memory_available > 0:
        yield error(
            f"The ranks lend {_gib(total)} in all, and this machine has {_gib(scene.machine.memory_available)} available.",
            "",
            "A smaller global_segment_size.",
            available=scene.machine.memory_available,
            **facts,
        )
    elif each < whole:
        yield info(
            f"Each of {ranks} ranks lends {_gib(each)}: global_segment_size is for all ranks of an engine together.",
            "HC-A10",
            "",
            **facts,
        )
    else:
        yield ok(f"The engine lends {_gib(each)}.", **facts)
    yield from _reachable(scene, each)


def _reachable(scene: Scene, each: int) -> Iterator[Result]:
    config = scene.config
    if config is None or each <= 0 or not config.master_server_address.value:
        return
    try:
        host = host_of(config.master_server_address.value)
    except OperatorError:
        return
    name = config.local_hostname.value
    if name in LOOPBACK and not is_here(host.strip("[]")):
        yield warning(
            f"This host lends memory under the name '{name}', but the master is elsewhere ({host}): other hosts will look for the objects on themselves.",
            "",
            "Set local_hostname (MOONCAKE_LOCAL_HOSTNAME) to an address of this host that the others reach.",
            local_hostname=name,
            origin=config.local_hostname.origin,
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"
