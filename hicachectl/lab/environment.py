"""The environment that the lab gives a command."""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from hicachectl.lab import gpu
from hicachectl.lab.plugin import SWITCH
from hicachectl.lab.stand_ins import rows

PLUGIN = "hicachectl_lab"
MODEL = "HICACHECTL_LAB_MODEL"
PROVIDES = "HICACHECTL_LAB_PROVIDES"
"""NAME=VALUE lines of what the lab set, so that nobody takes them for settings of the user."""
OTHER_STORES = (
    "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
    "MOONCAKE_CONFIG_PATH",
    "MOONCAKE_CLIENT",
    "MOONCAKE_STANDALONE_STORAGE",
    "MOONCAKE_ENABLE_SSD_OFFLOAD",
)
"""Settings that SGLang reads beside or before MOONCAKE_MASTER; left in place, they would send a lab run to the store that they name."""
WITHOUT_GPU = {"SGLANG_USE_CPU_ENGINE": "1", "TRITON_INTERPRET": "1"}
UNLESS_SET = {"TORCHDYNAMO_DISABLE": "1"}
"""Without it, tensor parallelism compiles C++ at the first request, which takes half a minute and wants a compiler."""
KERNELS = Path(__file__).parent / "stand_ins" / "kernels"
"""A folder for PYTHONPATH with the module `sgl_kernel`."""


def for_command(outer: Mapping[str, str], store: Mapping[str, str], model: Path) -> dict[str, str]:
    """OUTER with what an engine needs to use STORE and MODEL, and, on a machine without a GPU, to run there."""
    inner = {name: value for name, value in outer.items() if name not in OTHER_STORES}
    inner |= {
        **store,
        SWITCH: "1",
        MODEL: str(model),
        PROVIDES: "\n".join(f"{name}={value}" for name, value in store.items()),
    }
    if not gpu.present():
        inner = {**UNLESS_SET, **inner, **WITHOUT_GPU}
        if _kernels_refuse():
            inner["PYTHONPATH"] = ":".join(part for part in (str(KERNELS), outer.get("PYTHONPATH", "")) if part)
    return inner


def dropped(outer: Mapping[str, str]) -> list[str]:
    """The settings of OUTER that `for_command` leaves out because they name another store."""
    return [name for name in OTHER_STORES if name in outer]


def remarks(outer: Mapping[str, str]) -> list[str]:
    """What the operator should know about OUTER before a command runs, a sentence each."""
    said = []
    if names := dropped(outer):
        said.append(f"not given to the command, because it names another store: {', '.join(names)}")
    allowed = {name.strip() for name in outer.get("SGLANG_PLUGINS", "").split(",")} - {""}
    if allowed and PLUGIN not in allowed and not gpu.present():
        said.append(f"SGLANG_PLUGINS leaves out {PLUGIN}, without which HiCache needs a GPU, and there is none")
    return said


def _kernels_refuse() -> bool:
    """Whether the SGLang beside this Python brings kernels that cannot be imported without a GPU."""
    try:
        return rows.kernels_refuse(metadata.version("sglang"))
    except metadata.PackageNotFoundError:
        return False
