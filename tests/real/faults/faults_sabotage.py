"""A plugin of the tests for the engine's own processes: makes calls of the Mooncake backend slow, or makes them raise, while a file says so.

The file named by HICACHECTL_TESTS_SABOTAGE holds a JSON object: `{"get": {"sleep": 0.5}, "put": {"raise": "broken"}}`; `{"load": {"quota": 16}}`
gives loads the limit that SGLang's own scheduler never gives, `{"insert": {"sleep": 0.2}}` has each chunk of a prefill take its time.
"""

import functools
import importlib
import json
import os
import sys
import time
from pathlib import Path

SWITCH = "HICACHECTL_TESTS_SABOTAGE"
STORE = "sglang.srt.mem_cache.storage.mooncake_store.mooncake_store"
TREES = (("sglang.srt.mem_cache.hiradix_cache", "HiRadixCache"), ("sglang.srt.mem_cache.radix_cache", "RadixCache"))
METHODS = {"get": "batch_get_v1", "put": "batch_set_v1", "exists": "batch_exists"}


def register():
    """Called by SGLang in every process of the engine."""
    path = os.environ.get(SWITCH)
    if path:
        store = importlib.import_module(STORE).MooncakeStore
        for name, method in METHODS.items():
            setattr(store, method, wrapped(getattr(store, method), name, path))


@functools.cache
def prepare(path):
    """Take hold of the tree at the first call of the backend: to import it any earlier would change the order in which the engine does."""
    tree, base = (getattr(sys.modules.get(name), cls, None) for name, cls in TREES)
    if tree is not None and base is not None:
        tree.init_load_back = limited(tree.init_load_back, path)
        base.cache_unfinished_req = wrapped(base.cache_unfinished_req, "insert", path)


def wrapped(original, name, path):
    """ORIGINAL, after what the file asks for under NAME."""

    @functools.wraps(original)
    def call(*args, **kwargs):
        prepare(path)
        asked = read(path).get(name) or {}
        time.sleep(asked.get("sleep", 0))
        if "raise" in asked:
            raise RuntimeError(asked["raise"])
        return original(*args, **kwargs)

    return call


def limited(original, path):
    """ORIGINAL, with the quota that the file asks for."""

    @functools.wraps(original)
    def call(tree, params):
        params.mem_quota = (read(path).get("load") or {}).get("quota", params.mem_quota)
        return original(tree, params)

    return call


def read(path):
    """What is asked for now; nothing where the file is not there."""
    try:
        return json.loads(Path(path).read_text())
    except OSError:
        return {}
