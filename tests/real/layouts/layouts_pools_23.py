"""Pools, controllers and layouts of SGLang 0.5.23, built of its own classes on the CPU, and how its tree asks a controller for a prefetch.

Every controller is the hybrid one, over a group of pools; host memory is given to a prefetch once its hit is known; a draft model's pool is a
side pool like any other.
"""

import threading
from array import array
from types import SimpleNamespace

from layouts_pools import compressed, side, states

PAGE, LAYERS, SLOTS = 16, 3, 512
MODEL = "a-model"


# --- what the tree does -------------------------------------------------------------------------------------------------
def chain(controller, tokens, page):
    """The page keys, as the controller works them out."""
    return controller.get_hash_str(array("q", tokens), None, page)


def prefetch(layout, rid, tokens, transfers):
    """Ask for a prefix, wait for the hit, then give it host memory and have it read; the operation, and where its pages go."""
    from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle  # noqa: PLC0415
    from sglang.srt.mem_cache.radix_cache import RadixKey  # noqa: PLC0415

    controller = layout.controller
    controller.prefetch(CacheRequestHandle(rid, 0), RadixKey(array("q", tokens)), None, None, extra_pools=transfers or None)
    operation = controller.prefetch_hit_queue.get(timeout=30)
    if not operation.storage_hit_count:
        return operation, None
    operation.host_indices = layout.anchor.alloc(operation.storage_hit_count)
    controller.prefetch_buffer.put(operation)
    return operation, operation.host_indices


def wait_for(controller, operation, page, patience):
    """Take the acknowledgements until the last one; tokens read."""
    done = 0
    while operation.storage_hit_count:
        ack = controller.ack_prefetch_queue.get(timeout=patience)
        done = ack.completed_tokens or done
        if ack.completed_req:
            break
    return done


# --- pools --------------------------------------------------------------------------------------------------------------
def mha(layout="page_first_direct", page=PAGE):
    """Keys and values of several heads: a device pool and its host pool."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.hybrid_cache.hybrid_pool_assembler import _mha_host_inputs  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool  # noqa: PLC0415

    device = MHATokenToKVPool(SLOTS, page, torch.bfloat16, 4, 16, LAYERS, "cpu", False)
    kind, info, more = _mha_host_inputs(device)
    return device, kind(info, 2.0, 0, page, layout, pin_memory=False, **more)


def mla(layout="page_first_direct", page=PAGE, device=None):
    """Compressed KV, the same on every rank."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool  # noqa: PLC0415
    from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost  # noqa: PLC0415

    device = device or MLATokenToKVPool(SLOTS, page, torch.bfloat16, 64, 16, LAYERS, "cpu", False)
    more = {
        "device_capacity_tokens": device.size,
        "start_layer": device.start_layer,
        "end_layer": device.end_layer,
        "target_layer_num": device.layer_num,
        "override_kv_cache_dim": device.kv_cache_dim,
    }
    return device, MLATokenToKVPoolHost(device.get_device_pool_infos()[0].buffer_info, 2.0, 0, page, layout, pin_memory=False, **more)


def dsa():
    """Compressed KV with an indexer beside it: pages of 64 tokens."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool  # noqa: PLC0415
    from sglang.srt.mem_cache.pool_host.dsa import DSAIndexerPoolHost, make_dsa_indexer_pool_decl  # noqa: PLC0415

    ranked()
    device = DSATokenToKVPool(1024, 64, 64, torch.bfloat16, 16, LAYERS, "cpu", 128, False, 80)
    device, host = mla(page=64, device=device)
    return device, host, DSAIndexerPoolHost(make_dsa_indexer_pool_decl(device), host, pin_memory=False)


def mamba():
    """The state of linear attention: one slot a prefix."""
    import torch  # noqa: PLC0415
    from sglang.srt.mem_cache.device_pool_info import MambaStateBufferInfo  # noqa: PLC0415
    from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost  # noqa: PLC0415

    conv = (torch.zeros(LAYERS, 9, 8, 3, dtype=torch.bfloat16), torch.zeros(LAYERS, 9, 4, 3, dtype=torch.bfloat16))
    info = MambaStateBufferInfo(conv=conv, temporal=torch.zeros(LAYERS, 9, 2, 4, 4, dtype=torch.float32))
    return MambaPoolHost(info, 4.0, 0, device_capacity=8, pin_memory=False, layout="page_first_direct")


# --- layouts ------------------------------------------------------------------------------------------------------------
def ranked(rank=0, ranks=1, stage=0, stages=1):
    """Tell the classes of this process which rank they are of."""
    from sglang.srt.runtime_context import get_parallel  # noqa: PLC0415

    get_parallel().override_permanently(tp_rank=rank, tp_size=ranks, pp_rank=stage, pp_size=stages, attn_dcp_size=1, attn_dcp_rank=0)


def built(device, host, *pools, place=(0, 1, 0, 1), extra=None):
    """A controller over the KV pool, or what stands for it, and pools beside it, with the store attached; ranks are told, since no process group is made."""
    from sglang.srt.managers import cache_controller as module  # noqa: PLC0415
    from sglang.srt.mem_cache.hicache_storage import PoolName  # noqa: PLC0415
    from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController  # noqa: PLC0415
    from sglang.srt.mem_cache.pool_host import HostPoolGroup, PoolEntry  # noqa: PLC0415

    ranked(*place)
    module.is_dp_attention_enabled = lambda: False
    entries = [PoolEntry(PoolName.KV, host, device, lambda layer: layer, is_primary_index_anchor=True)]
    entries += [PoolEntry(PoolName(pool.name), pool.host, None, lambda layer: layer) for pool in pools]
    page = host.page_size
    allocator = SimpleNamespace(get_kvcache=lambda: device, page_size=page, size=getattr(device, "size", 0))
    group = HostPoolGroup(entries)
    controller = HybridCacheController(
        allocator, group, page, None, threading.Event(), write_policy="write_through", io_backend="direct", prefetch_threshold=page
    )
    controller.attach_storage_backend("mooncake", page, MODEL, dict(extra or {}), host_pools=group.entries)
    return SimpleNamespace(controller=controller, anchor=host, page=page, pools=pools, hybrid=True)


def v4(*pools):
    """DeepSeek V4: a KV pool that holds nothing, and pools beside it that hold all."""
    from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool  # noqa: PLC0415

    return built(v4_device(), LogicalHostPool(1024, PAGE, "page_first_direct"), *pools)


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


V4 = ("c4", "c4_rope", "c4_indexer", "c4_indexer_scale", "c128", "c128_rope", "swa", "c4_state", "c4_indexer_state", "c128_state")
V41 = ("c1", "c1_indexer", "c1_indexer_scale", "c2", "c2_indexer", "c2_indexer_scale")


def indexed():
    """Sparse attention: an indexer for every page."""
    device, host, indexer = dsa()
    return built(device, host, side("indexer", indexer, like="kv"))


LAYOUTS = {
    "mha": lambda: built(*mha()),
    "mha_rank_1": lambda: built(*mha(), place=(1, 2, 0, 1)),
    "mha_stage_1": lambda: built(*mha(), place=(0, 1, 1, 2)),
    "mha_rank_1_stage_1": lambda: built(*mha(), place=(1, 2, 1, 2)),
    "mla_stage_1": lambda: built(*mla(), place=(0, 1, 1, 2)),
    "mha_tagged": lambda: built(*mha(), extra={"extra_backend_tag": "team"}),
    "mha_grouped": lambda: built(*mha(), extra={"enable_group_semantics": True}),
    "mha_page_first": lambda: built(*mha("page_first")),
    "split_heads": lambda: built(*mha("page_head"), place=(1, 2, 0, 1), extra={"tp_lcm_size": 4}),
    "mla": lambda: built(*mla()),
    "mla_rank_1": lambda: built(*mla(), place=(1, 2, 0, 1)),
    "multi_buffer": lambda: built(*mla("layer_first")),
    "draft": lambda: built(*mha(), side("draft", mha()[1], like="kv")),
    "draft_mla": lambda: built(*mla(), side("draft", mha()[1], like="kv")),
    "swa": lambda: built(*mha(), side("swa", mha()[1], trailing=3)),
    "mamba": lambda: built(*mha(), side("mamba", mamba(), trailing=1)),
    "mamba_rank_1": lambda: built(*mla(), side("mamba", mamba(), trailing=1), place=(1, 2, 0, 1)),
    "mamba_swa": lambda: built(*mha(), side("swa", mha()[1], trailing=3), side("mamba", mamba(), trailing=1)),
    "dsa": indexed,
    "v4": lambda: v4(*map(dsv4, V4)),
    "v41": lambda: v4(*map(dsv4, V41)),
    "unwritten": lambda: forgetful(built(*mha(), side("mamba", mamba(), trailing=1))),
}


def forgetful(layout):
    """LAYOUT, whose side pools are registered and never used."""
    layout.pools = ()
    return layout
