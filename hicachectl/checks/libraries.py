"""Can the Mooncake client be loaded, and which package brings what the loader does not find."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, ok
from hicachectl.checks.scene import Scene
from hicachectl.lab import libraries


def look(scene: Scene) -> Iterator[Result]:
    """Every shared object that is missing is an error with its package."""
    inside = scene.inside
    if not scene.wants_mooncake or (inside.mooncake is None and inside.mooncake_error):
        return
    missing = dict.fromkeys(inside.missing_libraries)
    if named := libraries.missing_in(inside.mooncake_error):
        missing[named] = None
    if missing:
        advice = "; ".join(dict.fromkeys(libraries.advice(library) for library in missing))
        yield error(
            f"The Mooncake client cannot be loaded: {', '.join(missing)} not found.", "", advice, missing=list(missing)
        )
    elif inside.mooncake_error:
        yield error(
            "The Mooncake client cannot be loaded.",
            "",
            "Install the wheel again, for this Python and this machine.",
            error=inside.mooncake_error,
        )
    else:
        yield ok("The Mooncake client and all its libraries load.")
