"""Which source describes the store, what it says, and which given values are in vain."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.config import ENGINE_ROWS, ROWS, Ignored, StoreConfig


def look(scene: Scene) -> Iterator[Result]:
    """A configuration that SGLang refuses is an error; what it ignores although it differs is a warning."""
    if not scene.wants_mooncake:
        return
    config = scene.config
    if config is None:
        yield error(
            "The store's configuration is missing."
            if scene.unconfigured
            else "SGLang refuses the store's configuration.",
            "HC-A03",
            "",
            why=scene.config_problem,
        )
        return
    yield ok(
        f"The store is described by {config.source.value}.",
        master=config.master_server_address.value,
        origin=config.master_server_address.origin,
    )
    for row in config.ignored:
        told = warning if _differs(config, row) else info
        yield told(
            f"{row.name} = '{row.value}' ({row.origin}) is not used: {row.why}.",
            "HC-A02" if told is warning else "",
            f"Set it where the store is described ({config.source.value}), or remove it.",
        )
    for name in NAMES:
        value = getattr(config, name)
        # That a release does not know a setting matters where somebody has set it, and then it is among the ignored.
        if value.remark and not (name == "tenant_id" and value.origin == "default"):
            yield warning(f"{name}: {value.remark}.", "", "", value=value.value, origin=value.origin)


NAMES: tuple[str, ...] = (*(row.name for row in ROWS), *(name for name, _, _ in ENGINE_ROWS))
"""Every setting of the configuration."""


def _differs(config: StoreConfig, row: Ignored) -> bool:
    """Whether what is ignored is another value than what is used."""
    name = next((setting.name for setting in ROWS if row.name in {setting.name, setting.variable}), None)
    used = getattr(config, name).value if name is not None else None
    return row.value not in {str(used), "" if used is None else str(used)}
