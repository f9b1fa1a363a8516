"""Will the engine have a storage backend at all, and is it Mooncake's."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.config_values import flag
from hicachectl.release import Release

NAMES: tuple[tuple[str, str], ...] = (
    ("file", "0.5.14"),
    ("mooncake", "0.5.14"),
    ("hf3fs", "0.5.14"),
    ("nixl", "0.5.14"),
    ("aibrix", "0.5.14"),
    ("dynamic", "0.5.14"),
    ("eic", "0.5.14"),
    ("simm", "0.5.14"),
    ("sim", "0.5.23"),
    ("npu_memcache", "0.5.23"),
    ("tensorcast", "0.5.23"),
    ("seaweedfs", "0.5.23"),
)
"""Backends that the command line takes, and the first supported release that has each."""
CPP_TREE = "SGLANG_EXPERIMENTAL_CPP_RADIX_TREE"


def look(scene: Scene) -> Iterator[Result]:
    """No backend, an unknown one, or one that nothing will use."""
    if not scene.engine_known:
        return
    arguments = scene.arguments
    name = arguments["hicache_storage_backend"]
    if name is None:
        yield warning(
            "No storage backend is asked for: nothing will be kept beyond this host.",
            "",
            "--enable-hierarchical-cache --hicache-storage-backend mooncake",
        )
        return
    refused = scene.parsed is not None and scene.parsed.refused
    if name not in _known(scene) and not refused:
        yield error(
            f"SGLang {scene.sglang} has no storage backend '{name}'.", "HC-A01", f"It has {', '.join(_known(scene))}."
        )
        return
    if not arguments["enable_hierarchical_cache"]:
        yield error(
            "A storage backend is named, but the hierarchical cache is off, so that it is never created.",
            "",
            "--enable-hierarchical-cache",
            backend=name,
        )
    if arguments["disable_radix_cache"]:
        yield error(
            "--disable-radix-cache leaves no cache that the hierarchical one could serve.",
            "",
            "Leave out --disable-radix-cache.",
        )
    if _is_set(scene.environment.get(CPP_TREE, "")) and Release.of(scene.sglang) < Release.of("0.5.23"):
        yield warning(f"${CPP_TREE} selects a tree that has no storage at all.", "HC-A16", f"Unset {CPP_TREE}.")
    if name != "mooncake":
        yield info(f"The storage backend is '{name}': the checks of the Mooncake store do not apply.")
    else:
        yield ok("The storage backend is Mooncake.", origin=arguments.origin("hicache_storage_backend"))


def _known(scene: Scene) -> list[str]:
    return [name for name, since in NAMES if Release.of(scene.sglang) >= Release.of(since)]


def _is_set(text: str) -> bool:
    try:
        return flag(text)
    except ValueError:
        return False
