"""Run by the Python that would run the engine: what it has, and how SGLang's own parser reads a command line.

Standard library alone at the top, so that any Python can run it. One JSON document on the stdout that it was started with; whatever
the imported packages print goes to stderr.
"""

import argparse
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "sglang",
    "torch",
    "hicachectl",
    "mooncake-transfer-engine",
    "mooncake-transfer-engine-non-cuda",
    "mooncake-transfer-engine-cuda13",
)
_NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)


def facts() -> dict[str, Any]:
    """Releases of the packages, and what the Mooncake client can do or why it cannot be loaded."""
    return {
        "python": sys.executable,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "packages": {name: metadata.version(name) for name in PACKAGES if any(metadata.distributions(name=name))},
        "plugins": sorted({entry.name for entry in metadata.entry_points(group="sglang.srt.plugins")})
        if sys.version_info >= (3, 10)
        else [],
        "mooncake": _mooncake(),
    }


def _mooncake() -> dict[str, Any]:
    spec = importlib.util.find_spec("mooncake")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    missing = sorted(
        {library for place in places for binary in Path(place).glob("*.so") for library in _missing(binary)}
    )
    try:
        store = importlib.import_module("mooncake.store")
    except ImportError as error:
        return {"error": str(error), "missing_libraries": missing}
    return {
        "error": "",
        "missing_libraries": missing,
        "group_ids": hasattr(store.ReplicateConfig(), "group_ids"),
        "setup": str(store.MooncakeDistributedStore.setup.__doc__),
    }


def _missing(binary: Path) -> list[str]:
    """Shared objects that the loader does not find for BINARY; none where there is no ldd to ask."""
    if shutil.which("ldd") is None or binary.name not in {"store.so", "engine.so"}:
        return []
    done = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False)
    return _NOT_FOUND.findall(done.stdout)


def parsed(words: list[str]) -> dict[str, Any]:
    """The command line as SGLang's own parser reads it, before it resolves anything (`prepare_server_args`, sglang/srt/server_args.py)."""
    server_args = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser(prog="sglang")
    server_args.ServerArgs.add_cli_args(parser)
    if "--config" in words:
        for module in ("sglang.srt.utils.server_args_config_parser", "sglang.srt.server_args_config_parser"):
            if importlib.util.find_spec(module) is not None:
                words = importlib.import_module(module).ConfigArgumentMerger(parser).merge_config_with_args(words)
                break
    values = vars(parser.parse_args(words))
    plain = (bool, int, float, str, type(None))
    return {name: value for name, value in values.items() if isinstance(value, plain)}


def main() -> None:
    """Print the facts, or with arguments what the parser made of them."""
    out = os.dup(1)
    os.dup2(2, 1)
    words = sys.argv[2:] if len(sys.argv) > 1 and sys.argv[1] == "--" else None
    try:
        answer = facts() if words is None else {"arguments": parsed(words)}
    except SystemExit:
        answer = {"refused": True}
    except Exception as error:  # noqa: BLE001 - the boundary of the process: every failure is data
        answer = {"error": f"{type(error).__name__}: {error}"}
    os.write(out, json.dumps(answer).encode())
    # What was imported may hold threads and devices; nothing is left to tidy up.
    os._exit(0)


if __name__ == "__main__":
    main()
