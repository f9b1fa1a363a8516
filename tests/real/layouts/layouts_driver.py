"""Writes, looks up and reads pages of layouts through SGLang's own pools, controller and store; run as `layouts_driver.py LAYOUT[-PART]...`.

No model and no scheduler: the cache's classes alone, on the CPU, against the store that the environment names. With PART, the
last page's object with PART in its key is taken away before the look-up. One process a layout, forked after the imports, which take
longest; each prints one JSON line.
"""

import json
import os
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace

PAGE, PAGES, LAYERS, SLOTS = 16, 6, 3, 512
PATIENCE_S = 30.0


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
        told = play(LAYOUTS[layout](), number * 1000, name, part)
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
    hashes = chain(controller, tokens, page)
    anchor = layout.anchor
    written = fill(anchor, anchor.alloc(len(tokens)))
    transfers = [transfer(pool, hashes, fill_too=True) for pool in layout.pools]
    more = {"extra_pools": transfers} if layout.hybrid else {}
    ways = noted(controller.storage_backend)
    controller.write_storage(written, tokens, hash_value=list(hashes), **more)
    operation = controller.ack_backup_queue.get(timeout=PATIENCE_S)
    stored = keys(hashes)
    removed = forget(without, hashes) if without else []
    asked = anchor.alloc(len(tokens))
    more = {"extra_pools": [transfer(pool, hashes) for pool in layout.pools]} if layout.hybrid else {}
    fetched = controller.prefetch(rid, asked, tokens, None, **more)
    read = wait_for(controller, fetched, page)
    return {
        "tokens": tokens,
        "page": page,
        "keys": stored,
        "hashes": hashes,
        "completed": operation.completed_tokens,
        "skip": controller.backup_skip,
        "multi_buffer": sorted(ways),
        "removed": removed,
        "found": len(fetched.hash_value) * page,
        "read": read,
        "same": same(anchor, written, asked, read // page) if read else None,
    }


def noted(backend):
    """Note whether objects are given to the store as several buffers."""
    ways, original = set(), backend._uses_multi_buffer

    def uses_multi_buffer(pointers):
        ways.add(original(pointers))
        return original(pointers)

    backend._uses_multi_buffer = uses_multi_buffer
    return ways


def wait_for(controller, operation, page):
    """Wait until the prefetch has read what it found; tokens read."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        revoked = not controller.prefetch_revoke_queue.empty()
        done = operation.hash_value and operation.completed_tokens == len(operation.hash_value) * page and getattr(operation, "pool_transfers_done", True)
        if revoked or done:
            break
        time.sleep(0.02)
    return operation.completed_tokens


def chain(controller, tokens, page):
    """The page keys, as the controller works them out."""
    found, last = [], None
    for start in range(0, len(tokens), page):
        last = controller.get_hash_str(tokens[start : start + page], last)
        found.append(last)
    return found


def transfer(pool, hashes, fill_too=False):
    """What the tree would hand over for a side pool: all pages, or the last ones."""
    from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer  # noqa: PLC0415

    mine = hashes[-pool.trailing :] if pool.trailing else hashes
    policy = PoolHitPolicy.TRAILING_PAGES if pool.trailing else PoolHitPolicy.ALL_PAGES
    if pool.like_kv:
        return PoolTransfer(name=PoolName(pool.name), keys=list(mine), hit_policy=policy, indices_from_pool=PoolName.KV)
    indices = pool.host.alloc(len(mine) * pool.host.page_size)
    if fill_too:
        fill(pool.host, indices)
    return PoolTransfer(name=PoolName(pool.name), host_indices=indices, keys=list(mine), hit_policy=policy)


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


# --- pools --------------------------------------------------------------------------------------------------------------
def mha(layout="page_first_direct", page=PAGE):
    """Keys and values of several heads: a device pool and its host pool."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import MHATokenToKVPoolHost  # noqa: PLC0415

    device = MHATokenToKVPool(SLOTS, page, torch.bfloat16, 4, 16, LAYERS, "cpu", False)
    return device, MHATokenToKVPoolHost(device, 2.0, 0, page, layout, pin_memory=False)


def mla(layout="page_first_direct"):
    """Compressed KV, the same on every rank."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import MLATokenToKVPoolHost  # noqa: PLC0415

    device = MLATokenToKVPool(SLOTS, PAGE, torch.bfloat16, 64, 16, LAYERS, "cpu", False)
    return device, MLATokenToKVPoolHost(device, 2.0, 0, PAGE, layout, pin_memory=False)


def dsa():
    """Compressed KV with an indexer beside it: pages of 64 tokens."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import DSAIndexerPoolHost, MLATokenToKVPoolHost  # noqa: PLC0415

    device = DSATokenToKVPool(1024, 64, 64, torch.bfloat16, 16, LAYERS, "cpu", 128, False, 80)
    host = MLATokenToKVPoolHost(device, 2.0, 0, 64, "page_first_direct", pin_memory=False)
    return device, host, DSAIndexerPoolHost(device, host, "page_first_direct", pin_memory=False)


def mamba():
    """The state of linear attention: one slot a prefix."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import MambaPoolHost  # noqa: PLC0415

    conv = [torch.zeros(LAYERS, 9, 8, 3, dtype=torch.bfloat16), torch.zeros(LAYERS, 9, 4, 3, dtype=torch.bfloat16)]
    state = SimpleNamespace(conv=conv, temporal=torch.zeros(LAYERS, 9, 2, 4, 4, dtype=torch.float32))
    device = SimpleNamespace(num_mamba_layers=LAYERS, mamba_cache=state, size=8, device="cpu", start_layer=0, end_layer=LAYERS)
    return MambaPoolHost(device, 4.0, 0, pin_memory=False, layout="page_first_direct")


def compressed(name, layout):
    """A paged pool of DeepSeek V4."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import DeepSeekV4PagedHostPool  # noqa: PLC0415

    buffers = [torch.zeros(8, 96, dtype=torch.uint8) for _ in range(LAYERS)]
    return DeepSeekV4PagedHostPool(name, buffers, 96, 64, PAGE, layout, pin_memory=False)


# --- layouts ------------------------------------------------------------------------------------------------------------
def side(name, host, trailing=0, like_kv=False):
    """A pool beside the KV pool: all of its pages, or the last TRAILING ones."""
    return SimpleNamespace(name=name, host=host, trailing=trailing, like_kv=like_kv)


def plain(pools, rank=0, ranks=1, stage=0, stages=1, extra=None, draft=None):
    """A layout of the plain controller."""
    device, host = pools
    from sglang.srt.managers.cache_controller import HiCacheController  # noqa: PLC0415

    controller = attached(HiCacheController, device, host, host.page_size, (rank, ranks, stage, stages), extra, draft)
    return SimpleNamespace(controller=controller, anchor=host, page=host.page_size, pools=(), hybrid=False)


def hybrid(device, host, *pools, rank=0, ranks=1):
    """A layout of the hybrid controller: the KV pool, or what stands for it, and pools beside it."""
    from sglang.srt.mem_cache.hicache_storage import PoolName  # noqa: PLC0415
    from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import HostPoolGroup, PoolEntry  # noqa: PLC0415

    entries = [PoolEntry(PoolName.KV, host, device, lambda layer: layer, is_primary_index_anchor=True)]
    entries += [PoolEntry(PoolName(pool.name), pool.host, None, lambda layer: layer) for pool in pools]
    controller = attached(HybridCacheController, device, HostPoolGroup(entries), host.page_size, (rank, ranks, 0, 1), None, None)
    return SimpleNamespace(controller=controller, anchor=host, page=host.page_size, pools=pools, hybrid=True)


def attached(kind, device, host, page, place, extra, draft):
    """A controller with the store attached; the ranks are told, since no process group is made."""
    from sglang.srt.managers import cache_controller as module  # noqa: PLC0415

    rank, ranks, stage, stages = place
    module.get_tensor_model_parallel_rank = lambda: rank
    module.get_tensor_model_parallel_world_size = lambda: ranks
    module.get_pipeline_model_parallel_rank = lambda: stage
    module.get_pipeline_model_parallel_world_size = lambda: stages
    module.is_dp_attention_enabled = lambda: False
    allocator = SimpleNamespace(get_kvcache=lambda: device, page_size=page, size=getattr(device, "size", 0))
    controller = kind(allocator, host, page, None, threading.Event(), write_policy="write_through", io_backend="direct", prefetch_threshold=page)
    if draft is not None:
        controller.set_draft_kv_pool(*draft)
    more = {"host_pools": host.entries} if hasattr(host, "entries") else {}
    controller.attach_storage_backend("mooncake", page, "a-model", dict(extra or {}), **more)
    return controller


def v4():
    """DeepSeek V4: a KV pool that holds nothing, and compressed pools that hold all."""
    from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool  # noqa: PLC0415

    device = SimpleNamespace(device="cpu", layer_num=LAYERS, size=SLOTS, register_layer_transfer_counter=lambda counter: None)
    pools = [side(name, compressed(name, "page_first_direct")) for name in ("deepseek_v4_c4", "deepseek_v4_c128")]
    return hybrid(device, LogicalHostPool(1024, PAGE, "page_first_direct"), *pools)


def swa():
    """A sliding window of 3 pages beside full attention."""
    device, host = mha()
    return hybrid(device, host, side("swa", mha()[1], trailing=3))


def linear():
    """Linear attention: the last page's state beside full attention."""
    device, host = mha()
    return hybrid(device, host, side("mamba", mamba(), trailing=1))


def indexed():
    """Sparse attention: an indexer for every page."""
    device, host, indexer = dsa()
    return hybrid(device, host, side("indexer", indexer, like_kv=True))


LAYOUTS = {
    "mha": lambda: plain(mha()),
    "mha_rank_1": lambda: plain(mha(), 1, 2),
    "mha_stage_1": lambda: plain(mha(), 0, 1, 1, 2),
    "mha_tagged": lambda: plain(mha(), extra={"extra_backend_tag": "team"}),
    "mha_page_first": lambda: plain(mha("page_first")),
    "split_heads": lambda: plain(mha("page_head"), 1, 2, extra={"tp_lcm_size": 4}),
    "mla": lambda: plain(mla()),
    "mla_rank_1": lambda: plain(mla(), 1, 2),
    "multi_buffer": lambda: plain(mla("layer_first")),
    "draft": lambda: plain(mha(), draft=mha()),
    "swa": swa,
    "mamba": linear,
    "dsa": indexed,
    "v4": v4,
}

if __name__ == "__main__":
    main()
