"""The table of stand-ins against the installed SGLang: every target is there and has the shape that the stand-in takes."""

import ast
import importlib.metadata
import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import invoke
import pytest
from installed import needs

from hicachectl.lab import environment as lab_environment
from hicachectl.lab.stand_ins import copies, rows

pytestmark = pytest.mark.real

PROBE = """
import importlib, inspect, json
from hicachectl.lab.stand_ins import rows
from importlib import metadata
found = {}
for row in rows.for_version(metadata.version("sglang")):
    module = importlib.import_module(row.module)
    holder = module
    *path, name = row.name.split(".")
    for step in path:
        holder = getattr(holder, step)
    found[f"{row.module}:{row.name}"] = hasattr(holder, name) or row.name in inspect.getsource(module)
print("FOUND" + json.dumps(found))
"""


def test_every_target_is_defined_or_used_by_its_module(tmp_path: Path) -> None:
    """A row whose module or name upstream no longer has would be a stand-in for nothing."""
    needs("sglang")
    env = lab_environment.for_command(invoke.environment(), {}, tmp_path)
    done = subprocess.run([sys.executable, "-c", PROBE], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.rpartition("FOUND")[2])
    assert len(found) == len(rows.for_version(importlib.metadata.version("sglang")))
    assert [target for target, there in found.items() if not there] == []


def test_the_copies_take_what_the_kernels_take() -> None:
    """Names and order of arguments are those of the wheel's own functions, whose source is read: it wants a GPU to be imported."""
    needs("sgl_kernel")
    spec = importlib.util.find_spec("sgl_kernel")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse((Path(spec.origin).parent / "kvcacheio.py").read_text())
    kernels = {
        node.name: [argument.arg for argument in node.args.args]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    for name in ("transfer_kv_all_layer_direct_lf_pf", "transfer_kv_per_layer_direct_pf_lf", "transfer_kv_direct"):
        assert list(inspect.signature(getattr(copies, name)).parameters) == kernels[name]
