"""Pools, controllers and layouts of SGLang 0.5.14, built of its own classes on the CPU, and how its tree asks a controller for a prefetch."""

import threading
import time
from types import SimpleNamespace

PAGE, LAYERS, SLOTS = 16, 3, 512


# --- what the tree does -------------------------------------------------------------------------------------------------
def chain(controller, tokens, page):
    """The page keys, as the controller works them out."""
    found, last = [], None
    for start in range(0, len(tokens), page):
        last = controller.get_hash_str(tokens[start : start + page], last)
        found.append(last)
    return found


def prefetch(layout, rid, tokens, transfers):
    """Ask for a prefix, host memory in hand; the operation, and where its pages go."""
    asked = layout.anchor.alloc(len(tokens))
    more = {"extra_pools": transfers} if layout.hybrid else {}
    return layout.controller.prefetch(rid, asked, tokens, None, **more), asked


def wait_for(controller, operation, page, patience):
    """Wait until the prefetch has read what it found; tokens read."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        revoked = not controller.prefetch_revoke_queue.empty()
        done = operation.hash_value and operation.completed_tokens == len(operation.hash_value) * page and getattr(operation, "pool_transfers_done", True)
        if revoked or done:
            break
        time.sleep(0.02)
    return operation.completed_tokens


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


def compressed(name):
    """A paged pool of DeepSeek V4."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import DeepSeekV4PagedHostPool  # noqa: PLC0415

    buffers = [torch.zeros(8, 96, dtype=torch.uint8) for _ in range(LAYERS)]
    return DeepSeekV4PagedHostPool(name, buffers, 96, 64, PAGE, "page_first_direct", pin_memory=False)


def states(name):
    """A pool of DeepSeek V4's compression states: ring buffers of 4 slots."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool_host import DeepSeekV4StateHostPool  # noqa: PLC0415

    rings = [SimpleNamespace(ring_size=4, kv_score_buffer=SimpleNamespace(kv_score=torch.zeros(32, 24, dtype=torch.float32))) for _ in range(LAYERS)]
    return DeepSeekV4StateHostPool(name, rings, 64, PAGE, "page_first_direct", pin_memory=False)


# --- layouts ------------------------------------------------------------------------------------------------------------
def side(name, host, trailing=0, like=None):
    """A pool beside the KV pool: all of its pages, or the last TRAILING ones, in slots of its own or in those of pool LIKE."""
    return SimpleNamespace(name=name, host=host, trailing=trailing, like=like)


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

    return hybrid(v4_device(), LogicalHostPool(1024, PAGE, "page_first_direct"), *map(dsv4, V4))


def v4_device():
    """DeepSeek V4's device pool without its buffers: its class says that all ranks have the same."""
    from sglang.srt.mem_cache.deepseek_v4_memory_pool import DeepSeekV4TokenToKVPool  # noqa: PLC0415

    device = object.__new__(DeepSeekV4TokenToKVPool)
    device.device, device.layer_num, device.size = "cpu", LAYERS, SLOTS
    device.register_layer_transfer_counter = lambda counter: None
    return device


def dsv4(name):
    """A pool of DeepSeek V4 by the last part of its name: the window and the states are kept of the last three pages, the states in its slots."""
    full = name if name == "swa" else f"deepseek_v4_{name}"
    if name.endswith("_state"):
        return side(full, states(full), trailing=3, like="swa")
    return side(full, compressed(full), trailing=3 if name == "swa" else 0)


V4 = ("c4", "c4_indexer", "c128", "swa", "c4_state", "c4_indexer_state", "c128_state")


def swa():
    """A sliding window of 3 pages beside full attention."""
    device, host = mha()
    return hybrid(device, host, side("swa", mha()[1], trailing=3))


def linear():
    """Linear attention: the last page's state beside full attention."""
    device, host = mha()
    return hybrid(device, host, side("mamba", mamba(), trailing=1))


def both():
    """Linear attention and a sliding window beside full attention."""
    device, host = mha()
    return hybrid(device, host, side("swa", mha()[1], trailing=3), side("mamba", mamba(), trailing=1))


def indexed():
    """Sparse attention: an indexer for every page."""
    device, host, indexer = dsa()
    return hybrid(device, host, side("indexer", indexer, like="kv"))


LAYOUTS = {
    "mha": lambda: plain(mha()),
    "mha_rank_1": lambda: plain(mha(), 1, 2),
    "mha_stage_1": lambda: plain(mha(), 0, 1, 1, 2),
    "mha_rank_1_stage_1": lambda: plain(mha(), 1, 2, 1, 2),
    "mla_stage_1": lambda: plain(mla(), 0, 1, 1, 2),
    "mha_tagged": lambda: plain(mha(), extra={"extra_backend_tag": "team"}),
    "mha_grouped": lambda: plain(mha(), extra={"enable_group_semantics": True}),
    "mha_page_first": lambda: plain(mha("page_first")),
    "split_heads": lambda: plain(mha("page_head"), 1, 2, extra={"tp_lcm_size": 4}),
    "mla": lambda: plain(mla()),
    "mla_rank_1": lambda: plain(mla(), 1, 2),
    "multi_buffer": lambda: plain(mla("layer_first")),
    "draft": lambda: plain(mha(), draft=mha()),
    "swa": swa,
    "mamba": linear,
    "mamba_swa": both,
    "dsa": indexed,
    "v4": v4,
    "unwritten": lambda: forgetful(linear()),
}


def forgetful(layout):
    """LAYOUT, whose side pools are registered and never used."""
    layout.pools = ()
    return layout
