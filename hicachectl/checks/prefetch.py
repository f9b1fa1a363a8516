"""How many tokens may be prefetched at once; zero means that nothing is ever read from the store.

Source: `attach_storage_backend` in `cache_controller.py`: 0.8 x (host - device) tokens in 0.5.14, 0.5 x host in 0.5.23; the host pool's
size in `pool_host/base.py`, which is rounded up to the next page and must exceed the device pool.
"""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.arguments import DEFAULT_RATIO, Arguments
from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.release import Release

HALF_OF_THE_HOST_SINCE = "0.5.23"


def look(scene: Scene) -> Iterator[Result]:
    """A limit of zero, and a host pool that is not larger than the device pool, are errors."""
    given = scene.arguments
    if not scene.engine_known or not given.uses_mooncake or not given["enable_hierarchical_cache"]:
        return
    old = Release.of(scene.sglang) < Release.of(HALF_OF_THE_HOST_SINCE)
    ratio, page = _ratio(given), given["page_size"] or 1
    facts: dict[str, Any] = {
        "ratio": ratio,
        "size_gb": given["hicache_size"],
        "page_size": page,
        "max_total_tokens": given["max_total_tokens"],
    }
    if given["hicache_size"] > 0:
        yield info(
            f"The host pool has {given['hicache_size']} GB, whatever the ratio: it must hold more tokens than the device pool, which is known once the model is loaded.",
            **facts,
        )
    elif old and ratio < 1:
        yield error(
            f"The host pool (ratio {ratio:g}) would be smaller than the device pool: SGLang does not start.",
            "",
            "--hicache-ratio above 1, or --hicache-size.",
            **facts,
        )
    elif old and given["max_total_tokens"]:
        device = given["max_total_tokens"]
        host = (int(device * ratio) // page + 1) * page
        yield _judged(int(0.8 * (host - device)), f"Host pool {host} tokens, device pool {device}", scene, facts)
    elif old and ratio <= 1:
        # Rounding up to the next page is all that the host pool has more than the device pool.
        yield _judged(
            int(0.8 * page),
            f"With ratio {ratio:g} the host pool has at most a page ({page} tokens) more than the device pool",
            scene,
            facts,
        )
    else:
        share = f"{0.8 * (ratio - 1):.2f}" if old else f"{0.5 * ratio:.2f}"
        yield ok(
            f"Tokens worth about {share} of the device pool may be prefetched at once.",
            origin=given.origin("hicache_ratio"),
            **facts,
        )


def _judged(limit: int, why: str, scene: Scene, facts: dict[str, Any]) -> Result:
    following = "--hicache-ratio 2, or --hicache-size."
    threshold = max(scene.config.prefetch_threshold.value, facts["page_size"]) if scene.config is not None else 0
    if limit <= 0:
        return error(
            f"{why}: the prefetch limit is 0 tokens, so nothing will be read from the store.",
            "HC-A19",
            following,
            limit=0,
            **facts,
        )
    if limit < threshold:
        return warning(
            f"{why}: at most {limit} tokens are on their way when another prefetch is asked for, so they come one at a time.",
            "",
            following,
            limit=limit,
            **facts,
        )
    return ok(f"{why}: further prefetches wait while {limit} tokens are on their way.", limit=limit, **facts)


def _ratio(given: Arguments) -> float:
    return DEFAULT_RATIO if given["hicache_ratio"] is None else float(given["hicache_ratio"])
