"""Attach and detach in a process that has imported SGLang's own modules, without an engine: what is touched, and that nothing stays."""

import json
import subprocess
import sys
from pathlib import Path

import invoke
import pytest
from installed import needs

from hicachectl import store
from tracers import vocabulary as v

pytestmark = pytest.mark.real

SCRIPT = """
import contextlib, importlib, json, os, socket, sys, threading
from sglang.srt.plugins import load_plugins
load_plugins()
import sglang.srt.managers.scheduler
from tracers.points import ALL
for name in sorted({target.module for point in ALL for target in point.targets}):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)

def everything():
    found = {f"finder {index}": finder for index, finder in enumerate(sys.meta_path)} | {f"thread {thread.name}": thread for thread in threading.enumerate()}
    for name in sorted(sys.modules):
        module = sys.modules[name]
        if name.partition(".")[0] in ("sglang", "mooncake") and hasattr(module, "__dict__"):
            for key, value in list(vars(module).items()):
                found[f"{name}:{key}"] = value
                if isinstance(value, type) and value.__module__ == name:
                    found |= {f"{name}:{key}.{attribute}": each for attribute, each in list(vars(value).items())}
    return found

def differs(was):
    now = everything()
    return [name for name in was.keys() | now.keys() if was.get(name) is not now.get(name)]

def ask(**words):
    peer.sendall(json.dumps(words).encode() + b"\\n")
    return json.loads(peer.recv(9999))

peer = socket.socket(socket.AF_UNIX)
peer.connect(f"{os.environ['HICACHECTL_ATTACH_DIR']}/{os.getpid()}.sock")
was, told = everything(), []
for run in sys.argv[1:]:
    on = ask(do="on", folder=run)
    touched = [name for name in differs(was) if not name.startswith(("finder", "thread"))]
    off = ask(do="off")
    told.append({"on": on, "touched": touched, "off": off, "left": differs(was)})
print(json.dumps({"attributes": len(was), "told": told}))
"""


def test_every_attribute_of_sglang_is_the_same_object_after_a_detach(tmp_path: Path) -> None:
    """Twice: every target that this version has is touched, and afterwards no attribute, import watcher or thread differs."""
    needs("sglang", "mooncake")
    runs = [tmp_path / "one", tmp_path / "two"]
    for run in runs:
        run.mkdir()
    env = {"HICACHECTL_ATTACH": "1", v.ATTACH_FOLDER_VARIABLE: str(tmp_path / "sockets")}
    words = invoke.argv("lab", "exec", "--segment", "0", "--", sys.executable, "-c", SCRIPT, *map(str, runs))
    done = subprocess.run(words, env=invoke.environment(env), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["attributes"] > 10_000
    for run, told in zip(runs, found["told"], strict=True):
        assert told["on"]["ok"], told
        assert told["off"] == {"ok": True, "was": True}
        assert told["left"] == []
        (ledger,) = store.read([run]).ledgers.values()
        installed = {point.target for point in ledger.points if point.state == "installed"}
        assert len(installed) > 40
        assert {target for target in installed if ":" in target} <= set(told["touched"]) | {name for name in installed if name.startswith("mooncake")}
        assert ledger.ids("missing") == ledger.ids("changed") == []
