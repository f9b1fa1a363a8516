"""The copy kernels between device and host pool, as indexed tensor copies.

Signatures and meaning are those of `sgl_kernel.kvcacheio` (SGLang 0.5.14 and 0.5.23), so the names of arguments are theirs. `lf` is a pool with
one tensor a layer, indexed by token; `pf` is a pool indexed by page, then layer. Indices are token slots and come in whole pages.
"""

from typing import Any


def transfer_kv_all_layer_direct_lf_pf(
    src_ptrs: list[Any], dst_ptrs: list[Any], src_indices: Any, dst_indices: Any, page_size: int
) -> None:
    """Device to host: every layer of the tokens SRC_INDICES into the pages of DST_INDICES.

    DST_PTRS has one page-first tensor a part (K and V, or one for both), SRC_PTRS the layers of the first part, then those of the next.
    """
    pages = dst_indices[::page_size] // page_size
    layers = len(src_ptrs) // len(dst_ptrs)
    for part, host in enumerate(dst_ptrs):
        for layer in range(layers):
            host[pages, layer] = src_ptrs[part * layers + layer][src_indices].reshape(len(pages), *host.shape[2:])


def transfer_kv_per_layer_direct_pf_lf(
    src_ptrs: list[Any], dst_ptrs: list[Any], src_indices: Any, dst_indices: Any, layer_id: int, page_size: int
) -> None:
    """Host to device: one layer of the pages of SRC_INDICES into the tokens DST_INDICES, part by part."""
    pages = src_indices[::page_size] // page_size
    for host, device in zip(src_ptrs, dst_ptrs, strict=True):
        device[dst_indices] = host[pages, layer_id].reshape(len(dst_indices), *device.shape[1:])


def transfer_kv_direct(
    src_layers: list[Any], dst_layers: list[Any], src_indices: Any, dst_indices: Any, page_size: int
) -> None:
    """Either way between pools that both have one tensor a layer."""
    del page_size
    for src, dst in zip(src_layers, dst_layers, strict=True):
        dst[dst_indices] = src[src_indices]
