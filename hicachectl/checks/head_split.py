"""`tp_lcm_size`: are heads really split, so that engines of other tensor-parallel sizes can share objects.

Source: `_generate_storage_config` in `cache_controller.py`, both releases.
"""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.layout import resolved
from hicachectl.checks.result import Result, error, ok, warning
from hicachectl.checks.scene import Scene


def look(scene: Scene) -> Iterator[Result]:
    """Heads are split only in layout page_head, and only where the common size is larger than this engine's."""
    config, given = scene.config, scene.arguments
    if config is None or not config.tp_lcm_size.value:
        return
    common, size = config.tp_lcm_size.value, given["tp_size"]
    layout, _, _ = resolved(given, scene.sglang)
    facts: dict[str, Any] = {"tp_lcm_size": common, "tp_size": size, "layout": layout}
    if common % size:
        yield error(
            f"tp_lcm_size {common} is no multiple of tp size {size}: SGLang does not start.",
            "",
            "The least common multiple of all engines' tp sizes.",
            **facts,
        )
    elif layout != "page_head":
        yield warning(
            f"tp_lcm_size {common} has no effect in layout {layout}: heads are not split, and no log line says so.",
            "HC-A18",
            "--hicache-mem-layout page_head",
            **facts,
        )
    else:
        yield ok(
            f"Heads are split for a common tensor-parallel size of {common} (an MLA model is never split).", **facts
        )
