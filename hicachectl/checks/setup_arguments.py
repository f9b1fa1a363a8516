"""Does the client's `setup` know what the configuration asks of it.

Source: the retry loop around `setup` in `MooncakeStore.__init__`: what it does not know is dropped with a warning, but a tenant (0.5.23).
"""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, warning
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.config import DEFAULT_TENANT
from hicachectl.release import Release


def look(scene: Scene) -> Iterator[Result]:
    """An argument that is dropped is a warning; a tenant that is not known ends the engine."""
    config, signature = scene.config, scene.inside.setup_signature
    if config is None or not signature:
        return
    asked = {"enable_ssd_offload": config.enable_ssd_offload.value, "ssd_offload_path": config.ssd_offload_path.value}
    for name, value in asked.items():
        if value and name not in signature:
            yield warning(
                f"This Mooncake client's setup does not know {name}: SGLang leaves it out.",
                "HC-A04",
                "A later Mooncake has it.",
                value=value,
            )
    tenant = config.tenant_id.value
    if tenant != DEFAULT_TENANT and "tenant_id" not in signature and Release.of(scene.sglang) >= Release.of("0.5.17"):
        yield error(
            "This Mooncake client's setup does not know tenants, and SGLang does not start without.",
            "HC-A04",
            "A later Mooncake has them.",
            tenant_id=tenant,
        )
