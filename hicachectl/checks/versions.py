"""Are SGLang and the Mooncake client there, and are they releases that are known here."""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene

PAIRS: tuple[tuple[str, str], ...] = (("0.5.14", "0.3.11.post1"), ("0.5.23", "0.3.13.post1"))
"""Pairs of SGLang and Mooncake releases against which everything here is tested."""


def look(scene: Scene) -> Iterator[Result]:
    """A missing package is an error where the engine needs it; another pair of releases is information."""
    inside = scene.inside
    facts: dict[str, Any] = {
        "python": inside.python,
        "python_version": inside.python_version,
        "sglang": inside.sglang,
        "mooncake": inside.mooncake,
        "torch": inside.packages.get("torch"),
    }
    for remark in scene.remarks:
        yield warning(f"{remark[:1].upper()}{remark[1:]}.")
    if inside.sglang is None:
        level = error if scene.words is not None else info
        yield level(
            f"There is no SGLang in {inside.python}.",
            "",
            "Is it the Python that will run the engine? Name it by its path." if scene.words is not None else "",
            **facts,
        )
    if inside.mooncake is None and scene.wants_mooncake and inside.mooncake_error:
        yield error(
            f"There is no Mooncake client in {inside.python}.",
            "",
            "pip install mooncake-transfer-engine, or mooncake-transfer-engine-non-cuda on a machine without CUDA.",
            **facts,
        )
    if inside.sglang is not None and inside.mooncake is not None:
        pair = (inside.sglang, inside.mooncake)
        known = pair in PAIRS
        said = f"SGLang {pair[0]} with Mooncake client {pair[1]}"
        yield (
            ok(f"{said}.", **facts)
            if known
            else info(
                f"{said}: not one of the pairs that are tested here ({'; '.join(' with '.join(row) for row in PAIRS)}).",
                **facts,
            )
        )
