"""Scenes made by hand, for the checks that look at them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hicachectl.checks import arguments
from hicachectl.checks.inside import Inside, Parsed
from hicachectl.checks.machine import Machine, Port
from hicachectl.checks.result import Level, Result
from hicachectl.checks.scene import Scene
from hicachectl.checks.visit import Visit
from hicachectl.mooncake import config
from hicachectl.mooncake.master import DIALECTS, Health

GIB = 1 << 30
ENVIRONMENT = {"MOONCAKE_MASTER": "127.0.0.1:50051", "MOONCAKE_PROTOCOL": "tcp", "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1"}
HICACHE = ["--enable-hierarchical-cache", "--hicache-storage-backend", "mooncake"]
MLX5 = Port("mlx5_0", "1", "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)")
SIGNATURE = "setup(local_hostname, enable_ssd_offload, ssd_offload_path)"
PYTHON = Inside(
    python="/venv/bin/python",
    python_version="3.11.7",
    packages={"sglang": "0.5.14", "mooncake-transfer-engine": "0.3.11.post1", "torch": "2.11.0"},
    plugins=("hicachectl",),
    mooncake_error="",
    missing_libraries=(),
    group_ids=False,
    setup_signature=SIGNATURE,
)
MACHINE = Machine(memlock=None, memory_available=64 * GIB, huge_pages_free=0, huge_page_bytes=2 << 20, ports=())
SAMPLE = {"keys": 74, "segments": 1, "used_bytes": 606208, "capacity_bytes": 67108864}
GOOD_VISIT = Visit(
    "127.0.0.1:50051",
    setup=0,
    call=0,
    transport="tcp",
    admin="http://127.0.0.1:9003",
    health=Health(True, "leader", "serving", DIALECTS[False]),
    sample=SAMPLE,
)


def scene(
    *words: str,
    environment: Mapping[str, str] = ENVIRONMENT,
    extra: str | None = None,
    sglang: str = "0.5.14",
    python: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] | None = None,
    visit: Visit | None = GOOD_VISIT,
    parsed: Parsed | None = None,
    engine: bool = True,
) -> Scene:
    """A scene in which all is well, but for what is given; WORDS follow the usual flags of the hierarchical cache."""
    line: Sequence[str] = [*HICACHE, *words, *(["--hicache-storage-backend-extra-config", extra] if extra else [])]
    inside = replace(PYTHON, **{"packages": {**PYTHON.packages, "sglang": sglang}, **(python or {})})
    return Scene(
        environment=environment,
        inside=inside,
        machine=replace(MACHINE, **(machine or {})),
        words=tuple(line) if engine else None,
        arguments=arguments.parse(line) if engine else arguments.NOTHING_GIVEN,
        parsed=parsed,
        config=config.read(environment, extra, sglang),
        visit=visit,
    )


def levels(found: list[Result]) -> list[tuple[str, str]]:
    """Level and code of each result."""
    return [(result.level.value, result.code) for result in found]


def worst(found: list[Result]) -> Result:
    """The result that matters most."""
    return max(found, key=lambda result: list(Level).index(result.level))
