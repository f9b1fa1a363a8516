"""Group semantics: asked for, and supported by the client or not."""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.result import Result, info, ok
from hicachectl.checks.scene import Scene


def look(scene: Scene) -> Iterator[Result]:
    """Asked for and not supported, SGLang puts without groups and warns once."""
    config = scene.config
    if config is None or scene.inside.mooncake_error:
        return
    asked, supported = bool(config.enable_group_semantics.value), scene.inside.group_ids
    facts: dict[str, Any] = {"asked": asked, "supported": supported, "origin": config.enable_group_semantics.origin}
    if asked and not supported:
        yield info(
            "Group semantics are asked for, and this Mooncake client has no group_ids: objects are put without groups.",
            "HC-A09",
            "Mooncake 0.3.13 or later has them.",
            **facts,
        )
    else:
        yield ok(
            f"Group semantics are {'asked for and' if asked else 'not asked for;'} {'supported' if supported else 'not supported'} by this client.",
            **facts,
        )
