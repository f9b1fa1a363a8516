"""The only reader of the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MOONCAKE_VARIABLES = {
    "MOONCAKE_MASTER": "master_server_address",
    "MOONCAKE_PROTOCOL": "protocol",
    "MOONCAKE_DEVICE": "device_name",
    "MOONCAKE_TE_META_DATA_SERVER": "metadata_server",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "global_segment_size",
    "MOONCAKE_LOCAL_HOSTNAME": "local_hostname",
}
"""Variable -> field of SGLang's MooncakeStoreConfig (SGLang `mem_cache/storage/mooncake_store/mooncake_store.py`)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked of the tracers in this process."""

    folder: Path | None
    """Where the recording goes; None switches the tracers off."""
    queue: int
    """Spans that may wait for the writer."""
    detail: int
    """Objects and tokens whose detail may wait for the writer."""
    part_bytes: int
    """Size at which a spans file is rotated."""
    parts: int
    """Rotated files kept beside the current one."""
    service: str


def read(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from ENVIRONMENT; numbers that cannot be read fall back to the defaults."""
    env = os.environ if environment is None else environment
    folder = env.get("HICACHECTL_TRACE", "")
    off = env.get("HICACHECTL_OFF") == "1"
    return Settings(
        folder=Path(folder) if folder and not off else None,
        queue=_number(env, "HICACHECTL_QUEUE", 32768),
        detail=_number(env, "HICACHECTL_DETAIL", 400_000),
        part_bytes=_number(env, "HICACHECTL_PART_BYTES", 256 << 20),
        parts=_number(env, "HICACHECTL_PARTS", 7),
        service=env.get("OTEL_SERVICE_NAME", "") or "sglang",
    )


def stand_in() -> str | None:
    """`cpu` where the lab put CPU stand-ins in the place of GPU kernels, else None."""
    return os.environ.get("HICACHECTL_STAND_IN") or None


def user_set() -> dict[str, str]:
    """The Mooncake variables that the user set: those that the lab provides do not count."""
    provided = dict(line.partition("=")[::2] for line in os.environ.get("HICACHECTL_LAB_PROVIDES", "").split("\n") if line)
    return {name: os.environ[name] for name in MOONCAKE_VARIABLES if name in os.environ and os.environ[name] != provided.get(name)}


def config_file_named() -> bool:
    """Whether the environment names a Mooncake configuration file."""
    return bool(os.environ.get("SGLANG_HICACHE_MOONCAKE_CONFIG_PATH"))


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    try:
        return max(1, int(env.get(name, "")))
    except ValueError:
        return default
