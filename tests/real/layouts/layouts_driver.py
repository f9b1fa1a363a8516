"""Writes, looks up and reads pages of layouts through SGLang's own pools, controller and store; run as `layouts_driver.py LAYOUT[-PART]...`.

No model and no scheduler: the cache's classes alone, on the CPU, against the store that the environment names. With PART, the
last page's object with PART in its key is taken away before the look-up, with PART@N that of the first N pages; what `probe-keys` then
foretells is asked where PROBED has the layout. One process a layout, forked after the imports, which take
longest; each prints one JSON line. What differs between releases is in `layouts_pools` and `layouts_pools_23`.
"""

import importlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from importlib import metadata

PAGES = 6
PATIENCE_S = 30.0
# Layout -> what the command line must be told of it; the object keys of 0.5.14 have no model name.
PROBED = {"mha": ("--kind", "mha"), "mla": ("--kind", "mla")}
RELEASES = {"0.5.14": "layouts_pools", "0.5.23": "layouts_pools_23"}
pools = importlib.import_module(RELEASES[metadata.version("sglang")])


def main():
    """Play each layout that is named, one after the other."""
    import sglang.srt.managers.cache_controller  # noqa: PLC0415
    import sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller  # noqa: F401, PLC0415

    for number, name in enumerate(sys.argv[1:]):
        child = os.fork()
        if child == 0:
            one(name, number)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{name} failed")


def one(name, number):
    """Build the layout, write a prefix, take one object away where that is asked, look it up, read it; the process ends."""
    try:
        from sglang.srt.plugins import load_plugins  # noqa: PLC0415

        load_plugins()  # what loads the tracers
        layout, _, part = name.partition("-")
        told = play(pools.LAYOUTS[layout](), number * 1000, name, part)
        print("TOLD" + json.dumps({"layout": name, "pid": os.getpid(), **told}), flush=True)
        end(0)
    finally:
        end(1)


def end(code):
    """Let the tracers write what waits, then end without waiting for the controller's threads, as an engine that is killed."""
    import atexit  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    if code:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# --- one run ------------------------------------------------------------------------------------------------------------
def play(layout, first, rid, without):
    """Write, forget, look up, read; what came of each."""
    controller, page = layout.controller, layout.page
    tokens = list(range(first, first + PAGES * page))
    hashes = pools.chain(controller, tokens, page)
    anchor = layout.anchor
    written = fill(anchor, anchor.alloc(len(tokens)))
    transfers = [transfer(pool, hashes, fill_too=True) for pool in layout.pools]
    more = {"extra_pools": transfers} if layout.hybrid else {}
    ways, groups = noted(controller.storage_backend)
    controller.write_storage(written, tokens, hash_value=list(hashes), **more)
    operation = controller.ack_backup_queue.get(timeout=PATIENCE_S)
    stored = keys(hashes)
    part, _, among = without.partition("@")
    removed = forget(part, hashes[: int(among)] if among else hashes) if without else []
    foretold = probed(rid, tokens, page) if among else None
    fetched, asked = pools.prefetch(layout, rid, tokens, [transfer(pool, hashes) for pool in layout.pools])
    read = pools.wait_for(controller, fetched, page, PATIENCE_S)
    return {
        "tokens": tokens,
        "page": page,
        "keys": stored,
        "hashes": hashes,
        "completed": operation.completed_tokens,
        "skip": controller.backup_skip,
        "multi_buffer": sorted(ways),
        "groups": sorted(groups),
        "removed": removed,
        "probed": foretold,
        "found": len(fetched.hash_value) * page,
        "read": read,
        "same": same(anchor, written, asked, read // page) if read else None,
    }


def noted(backend):
    """Note whether objects are given to the store as several buffers, and the groups that they are put into."""
    ways, groups, original, put = set(), [], backend._uses_multi_buffer, backend._put_batch_zero_copy_impl

    def uses_multi_buffer(pointers):
        ways.add(original(pointers))
        return original(pointers)

    def put_batch(keys_, pointers, sizes, group_ids=None, **more):
        groups.extend(group_ids or [])
        return put(keys_, pointers, sizes, group_ids, **more)

    backend._uses_multi_buffer, backend._put_batch_zero_copy_impl = uses_multi_buffer, put_batch
    return ways, groups


def transfer(pool, hashes, fill_too=False):
    """What the tree would hand over for a side pool: all pages, or the last ones; in slots of its own, or in those of another pool."""
    from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer  # noqa: PLC0415

    mine = list(hashes[-pool.trailing :] if pool.trailing else hashes)
    policy = PoolHitPolicy.TRAILING_PAGES if pool.trailing else PoolHitPolicy.ALL_PAGES
    if fill_too:
        fill(pool.host, None)
    if pool.like:
        return PoolTransfer(name=PoolName(pool.name), keys=mine, hit_policy=policy, indices_from_pool=PoolName(pool.like))
    return PoolTransfer(name=PoolName(pool.name), host_indices=pool.host.alloc(len(mine) * pool.host.page_size), keys=mine, hit_policy=policy)


def fill(host, indices):
    """Put noise into a host pool; the indices are given back."""
    import torch  # noqa: PLC0415

    buffer = getattr(host, "kv_buffer", None)
    for each in buffer if isinstance(buffer, (list, tuple)) else [buffer]:
        if each is not None:
            flat = each.view(torch.uint8) if each.is_contiguous() else each
            flat.copy_(torch.randint(0, 255, flat.shape, dtype=torch.uint8))
    return indices


def same(host, before, after, pages):
    """Whether the pages that came back are those that were written, byte by byte."""
    import torch  # noqa: PLC0415

    size = host.page_size
    pairs = zip(before[::size][:pages], after[::size][:pages], strict=True)
    pages = ((host.get_data_page(int(one)), host.get_data_page(int(other))) for one, other in pairs)
    # Noise holds NaN, which equals nothing: as bytes.
    return all(torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)) for one, other in pages)


def keys(hashes):
    """The keys of these pages' objects in the store."""
    host = os.environ["MOONCAKE_MASTER"].partition(":")[0]
    with urllib.request.urlopen(f"http://{host}:{os.environ['MOONCAKE_MASTER_METRICS_PORT']}/get_all_keys", timeout=5) as answer:
        return sorted(key for key in answer.read().decode().split("\n") if any(page in key for page in hashes))


def probed(rid, tokens, page):
    """What the command foretells of these tokens, asked with the store and the shape alone."""
    shape = (*PROBED[rid.partition("-")[0]], "--page-size", str(page), "--model-name", "a-model", "--sglang", metadata.version("sglang"))
    words = ("probe-keys", "--tokens", ",".join(map(str, tokens)), *shape, "-o", "json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HICACHECTL_TRACE")}
    done = subprocess.run([sys.executable, "-m", "hicachectl", *words], env=environment, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}


def forget(part, hashes):
    """Remove an object with PART in its key, of the last page that has one, once no lease holds it."""
    from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415

    client = MooncakeDistributedStore()
    assert client.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", os.environ["MOONCAKE_MASTER"]) == 0
    gone = [key for page in reversed(hashes) for key in keys([page]) if part in key][:1]
    deadline = time.monotonic() + PATIENCE_S
    while gone and gone[0] in keys(hashes) and time.monotonic() < deadline:
        client.remove(gone[0])
        time.sleep(0.3)
    return gone


if __name__ == "__main__":
    main()
