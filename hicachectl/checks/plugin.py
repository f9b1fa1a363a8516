"""Would `hicachectl trace` see this engine: is the plugin in its Python, and does SGLang take it."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, info, ok
from hicachectl.checks.scene import Scene

PLUGIN = "hicachectl"
VARIABLE = "SGLANG_PLUGINS"
"""A list of the plugins that SGLang may load; empty or unset: all (sglang/srt/plugins)."""


def look(scene: Scene) -> Iterator[Result]:
    """Without the plugin the engine runs, and cannot be traced."""
    if not scene.engine_known or scene.inside.sglang is None:
        return
    allowed = {name.strip() for name in scene.environment.get(VARIABLE, "").split(",") if name.strip()}
    if PLUGIN not in scene.inside.plugins:
        yield info(
            f"The tracers are not installed in {scene.inside.python}: `hicachectl trace` could not see this engine.",
            "",
            "Install hicachectl into that Python.",
        )
    elif allowed and PLUGIN not in allowed:
        yield info(
            f"${VARIABLE} keeps the tracers out of this engine.",
            "",
            f"Add {PLUGIN} to {VARIABLE}.",
            allowed=sorted(allowed),
        )
    else:
        yield ok("The tracers are installed; `hicachectl trace -- COMMAND` records this engine.")
