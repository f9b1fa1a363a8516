"""Which memory layout and I/O backend SGLang will really use.

Source: `_resolve_layout_io_compatibility` and `_resolve_storage_layout_compatibility` of 0.5.14 (`server_args.py`), and
`sglang/srt/arg_groups/hicache_hook.py` of 0.5.23.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hicachectl.checks.arguments import Arguments
from hicachectl.checks.result import Result, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.release import Release


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One rule: where it applies, and what layout and I/O backend become."""

    holds: Callable[[Arguments, str, str], bool]
    layout: str | None
    io: str | None
    why: str
    code: str = ""
    since: str = "0.5.14"


REWRITES: tuple[Rewrite, ...] = (
    Rewrite(
        lambda _, layout, io: (layout, io) == ("page_first_direct", "kernel"),
        None,
        "direct",
        "the kernel I/O backend cannot copy page_first_direct",
    ),
    Rewrite(
        lambda _, layout, io: (layout, io) == ("page_first", "direct"),
        "page_first_direct",
        None,
        "the direct I/O backend cannot copy page_first",
    ),
    Rewrite(
        lambda given, layout, io: given.uses_mooncake and (layout, io) == ("layer_first", "direct"),
        "page_first_direct",
        None,
        "the Mooncake backend needs whole pages",
        "HC-A15",
    ),
    Rewrite(
        lambda given, layout, io: given.uses_mooncake and (layout, io) == ("layer_first", "kernel"),
        "page_first",
        None,
        "the Mooncake backend needs whole pages",
        "HC-A15",
    ),
    Rewrite(
        lambda given, layout, _: given["enable_unified_memory"] and layout == "page_first_direct",
        "page_first",
        "kernel",
        "the unified memory pool's rows are strided",
        since="0.5.23",
    ),
)
"""In SGLang's order; each rule sees what the ones before it made."""


def resolved(given: Arguments, sglang: str) -> tuple[str, str, list[Rewrite]]:
    """Layout and I/O backend as the engine will use them, and the rules that changed them."""
    layout, io = given["hicache_mem_layout"], given["hicache_io_backend"]
    applied = []
    for rule in REWRITES:
        if Release.of(sglang) >= Release.of(rule.since) and rule.holds(given, layout, io):
            layout, io = rule.layout or layout, rule.io or io
            applied.append(rule)
    return layout, io, applied


def look(scene: Scene) -> Iterator[Result]:
    """A layout or I/O backend that is not what was asked for is a warning."""
    given = scene.arguments
    if not scene.engine_known or not given["enable_hierarchical_cache"]:
        return
    layout, io, applied = resolved(given, scene.sglang)
    asked = {"layout": given["hicache_mem_layout"], "io_backend": given["hicache_io_backend"]}
    used = {"layout": layout, "io_backend": io}
    for rule in applied:
        yield warning(
            f"SGLang will use layout {layout} with I/O backend {io}: {rule.why}.",
            rule.code,
            f"--hicache-mem-layout {layout} --hicache-io-backend {io} asks for what will be used.",
            asked=asked,
            used=used,
        )
    if not applied:
        yield ok(f"Layout {layout} with I/O backend {io}.", origin=given.origin("hicache_mem_layout"))
