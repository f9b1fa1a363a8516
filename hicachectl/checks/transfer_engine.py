"""Will the backend share the engine's Transfer Engine: the four conditions, with the values that decide them.

Source: `MooncakeStore.__init__` (mooncake_store.py), `init_shared_mooncake_transfer_engine` (model_runner.py, 0.5.14), and
`get_ib_devices_for_gpu` (mooncake_transfer_engine.py).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hicachectl.checks.arguments import Arguments
from hicachectl.checks.result import Result, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.config import StoreConfig
from hicachectl.mooncake.config_values import flag

REUSE = "SGLANG_HICACHE_MOONCAKE_REUSE_TE"


def look(scene: Scene) -> Iterator[Result]:
    """A second engine beside an existing one is a warning: more registrations, more connections, no word in the log."""
    config = scene.config
    if config is None or not scene.engine_known or not scene.arguments.uses_mooncake:
        return
    conditions = _conditions(scene, config)
    failing = [row.why for row in conditions if not row.holds]
    facts: dict[str, Any] = {
        row.name: {"value": row.value, "needed": row.needed, "holds": row.holds} for row in conditions
    }
    if not failing:
        yield ok("The backend will share the engine's Transfer Engine.", **facts)
    elif _exists(scene) and config.protocol.value == "rdma":
        yield warning(
            f"The backend will start a second Transfer Engine beside the engine's own: {'; '.join(failing)}.",
            "HC-A05",
            "For sharing: protocol rdma, metadata server P2PHANDSHAKE, and one device name for both (device_name and --mooncake-ib-device).",
            **facts,
        )
    else:
        yield info(f"The backend will have a Transfer Engine of its own: {'; '.join(failing)}.", **facts)


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the four: the value that decides it, what it must be, and what to say where it is not."""

    name: str
    value: Any
    needed: Any
    why: str

    @property
    def holds(self) -> bool:
        """Whether it is as needed."""
        return bool(self.value == self.needed)


def _conditions(scene: Scene, config: StoreConfig) -> tuple[Condition, ...]:
    """The four, for rank 0."""
    exists, ours, theirs = _exists(scene), config.device_for(0).value, engine_device(scene.arguments, scene.environment)
    metadata, protocol = config.metadata_server.value, config.protocol.value
    return (
        Condition("engine exists", exists, True, "the engine has none that could be shared"),
        Condition("device name", ours, theirs, f"device_name is {ours!r}, the engine's device is {theirs!r}"),
        Condition(
            "metadata server", metadata, "P2PHANDSHAKE", f"the metadata server is {metadata!r}, not 'P2PHANDSHAKE'"
        ),
        Condition("protocol", protocol, "rdma", f"the protocol is {protocol!r}, not 'rdma'"),
    )


def engine_device(arguments: Arguments, environment: Any) -> str | None:
    """The device of the engine's Transfer Engine on GPU 0: a name, a map, or a file with a map; None where nothing names one."""
    if environment.get("MC_FORCE_TCP") == "1":
        return ""
    given = arguments["disaggregation_ib_device"] or arguments["mooncake_ib_device"]
    if given is None or not str(given).strip():
        return None
    text = str(given).strip()
    try:
        text = Path(text).read_text() if text.endswith(".json") else text
        found = json.loads(text) if text.strip().startswith("{") else text
    except (OSError, ValueError):
        return text
    if not isinstance(found, dict):
        return str(found)
    name = found.get("0")
    return str(name).strip() if name is not None else None


def _exists(scene: Scene) -> bool:
    given = scene.arguments
    try:
        reuse = flag(scene.environment.get(REUSE, "true"))
    except ValueError:
        reuse = True
    hicache = given["enable_hierarchical_cache"] and given.uses_mooncake and reuse
    disaggregated = given["disaggregation_mode"] != "null" and given["disaggregation_transfer_backend"] == "mooncake"
    encoder = (given["encoder_only"] or given["language_only"]) and given["encoder_transfer_backend"] == "mooncake"
    return bool(hicache or disaggregated or encoder)
