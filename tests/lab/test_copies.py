"""The copies that stand in for GPU kernels, against plain loops over tokens."""

import random

import pytest

from hicachectl.lab.stand_ins import copies

torch = pytest.importorskip("torch")

LAYERS, PAGES, SHAPE = 3, 6, (2, 4)


def slots(pages: list[int], page_size: int) -> "torch.Tensor":
    """The token slots of PAGES."""
    return torch.tensor([page * page_size + offset for page in pages for offset in range(page_size)], dtype=torch.int64)


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("parts", [1, 2])
def test_pages_go_down_and_come_back(page_size: int, parts: int) -> None:
    """Every token's every layer lands in its page's place, the other pages stay; the way back restores them, layer by layer."""
    device = [torch.randn(PAGES * page_size, *SHAPE).to(torch.bfloat16) for _ in range(parts * LAYERS)]
    host = [torch.zeros(PAGES, LAYERS, page_size, *SHAPE, dtype=torch.bfloat16) for _ in range(parts)]
    down, up = random.Random(page_size).sample(range(PAGES), 4), random.Random(parts).sample(range(PAGES), 4)
    copies.transfer_kv_all_layer_direct_lf_pf(device, host, slots(down, page_size), slots(up, page_size), page_size)
    for part in range(parts):
        for layer in range(LAYERS):
            for src, dst in zip(down, up, strict=True):
                for offset in range(page_size):
                    assert torch.equal(
                        host[part][dst, layer, offset], device[part * LAYERS + layer][src * page_size + offset]
                    )
        untouched = [page for page in range(PAGES) if page not in up]
        assert not host[part][untouched].any()
    for layer in range(LAYERS):
        back = [torch.zeros(PAGES * page_size, *SHAPE, dtype=torch.bfloat16) for _ in range(parts)]
        copies.transfer_kv_per_layer_direct_pf_lf(
            host, back, slots(up, page_size), slots(down, page_size), layer, page_size
        )
        for part in range(parts):
            assert torch.equal(
                back[part][slots(down, page_size)], device[part * LAYERS + layer][slots(down, page_size)]
            )


def test_a_pool_without_a_page_dimension_is_copied_by_slot() -> None:
    """State pools have one slot a page and no dimension for the tokens in it."""
    device = [torch.randn(PAGES, 5) for _ in range(LAYERS)]
    host = [torch.zeros(PAGES, LAYERS, 5)]
    copies.transfer_kv_all_layer_direct_lf_pf(device, host, torch.tensor([4, 0]), torch.tensor([1, 5]), 1)
    assert torch.equal(host[0][1, 2], device[2][4])
    assert torch.equal(host[0][5, 0], device[0][0])
    back = [torch.zeros(PAGES, 5)]
    copies.transfer_kv_per_layer_direct_pf_lf(host, back, torch.tensor([1, 5]), torch.tensor([4, 0]), 2, 1)
    assert torch.equal(back[0][4], device[2][4])


def test_pools_of_one_shape_are_copied_by_index() -> None:
    """Layer-first to layer-first."""
    src, dst = [torch.randn(8, 3)], [torch.zeros(8, 3)]
    copies.transfer_kv_direct(src, dst, torch.tensor([1, 7]), torch.tensor([2, 0]), 1)
    assert torch.equal(dst[0][[2, 0]], src[0][[1, 7]])
    assert not dst[0][[1, 3, 4, 5, 6, 7]].any()
