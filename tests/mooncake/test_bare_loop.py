"""The yardstick of `probe --bench` makes the calls that the probe's own steps make, and no others."""

from typing import Any

import pytest

from hicachectl.mooncake.child import Client


class Recording:
    """Stands for the client library's store: every call with its arguments, the keys as a number."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def register_buffer(self, start: int, size: int) -> int:
        """Take any buffer."""
        return 0

    def batch_put_from(self, keys: list[str], pointers: list[int], sizes: list[int]) -> list[int]:
        """Take all."""
        self.calls.append(("put", len(keys), pointers, sizes))
        return [0] * len(keys)

    def batch_get_into(self, keys: list[str], pointers: list[int], sizes: list[int]) -> list[int]:
        """Give each its bytes."""
        self.calls.append(("get", len(keys), pointers, sizes))
        return list(sizes)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (4, 4096), (256, 65536)])
def test_the_bare_loop_makes_the_probes_calls(count: int, size: int) -> None:
    """Same calls in the same order, with the same buffers and sizes, and keys of its own that are removed like all others."""
    client = Client()
    client.store = store = Recording()
    client.arena_of({"bytes": max(1 << 16, count * size)})
    keys = {"own": [f"own-{n}" for n in range(count)], "bare": [f"bare-{n}" for n in range(count)]}
    client.batch_put_from({"keys": keys["own"], "size": size})
    client.batch_get_into({"keys": keys["own"], "size": size})
    own, store.calls = store.calls, []
    reply = client.bare({"keys": keys["bare"], "size": size})
    assert store.calls == own
    assert reply["codes"] == [0] * 2 * count
    assert len(reply["seconds"]) == 2
    assert client.written == {*keys["own"], *keys["bare"]}


def test_a_read_is_not_won_by_the_bytes_of_an_earlier_one() -> None:
    """A store that says that it gave all bytes, and gave none, is caught, whatever was read before."""
    client = Client()
    client.store = Recording()
    client.arena_of({"bytes": 1 << 16})
    arena = client.arena
    assert arena is not None
    arena.regions[1][:] = arena.regions[0][:]
    assert client.batch_get_into({"keys": ["a", "b"], "size": 4096})["same"] is False
