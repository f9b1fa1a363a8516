"""Huge pages: asked for by the environment, and are there enough."""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.result import Result, error, info, ok
from hicachectl.checks.scene import Scene

ASKED_BY = "MC_STORE_USE_HUGEPAGE"
"""Where it is set, the client takes its segment from huge pages alone (mooncake-store, client_buffer and utils)."""


def look(scene: Scene) -> Iterator[Result]:
    """A segment that must come from huge pages needs as many of them."""
    config, machine = scene.config, scene.machine
    if config is None:
        return
    there = machine.huge_pages_free * machine.huge_page_bytes
    facts: dict[str, Any] = {
        "free": machine.huge_pages_free,
        "page_bytes": machine.huge_page_bytes,
        "free_bytes": there,
    }
    needed = config.segment_per_rank(scene.arguments["tp_size"], scene.arguments["pp_size"]) * scene.arguments.ranks
    if not scene.environment.get(ASKED_BY):
        yield info(f"Huge pages are not asked for ({ASKED_BY} is not set).", **facts)
    elif there < needed:
        yield error(
            f"${ASKED_BY} is set: {needed} bytes must come from huge pages, and {there} are free.",
            "",
            "vm.nr_hugepages, or unset the variable.",
            needed_bytes=needed,
            **facts,
        )
    else:
        yield ok(f"Huge pages are asked for, and {there} bytes of them are free.", needed_bytes=needed, **facts)
