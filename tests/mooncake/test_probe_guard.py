"""When a probe may put."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicachectl.mooncake.probe.guard import Memory, decide

MIB = 1 << 20


def gauges(used: int, capacity: int) -> dict[str, int | float]:
    """What the guard reads of a sample."""
    return {"used_bytes": used, "capacity_bytes": capacity}


@pytest.mark.parametrize(
    ("used", "wanted", "may"),
    [(0, 95, True), (0, 96, False), (90, 5, True), (90, 6, False), (96, 0, False), (100, 1, False)],
)
def test_the_put_may_reach_the_watermark_and_not_pass_it(used, wanted, may):
    """Up to the watermark a put is allowed, beyond it is not."""
    assert decide(gauges(used, 100), wanted, 0.95).may_put is may


def test_a_store_without_memory_has_nothing_to_evict():
    """Without capacity the put is made, for the store to refuse."""
    assert decide(gauges(0, 0), 5, 0.95).may_put


def test_an_unknown_fullness_means_no_put():
    """Where the gauges cannot be had, nothing is put, and the operator is told how to name the port."""
    guard = decide(None, 5, 0.95, "port filtered")
    assert not guard.may_put
    assert "port filtered" in guard.why
    assert "--admin" in guard.next


@pytest.mark.parametrize(("needed", "available", "may"), [(10, 10, True), (11, 10, False), (11, 0, True)])
def test_the_last_memory_of_a_host_is_not_taken(needed, available, may):
    """Buffers that this host has no memory for are not made; where that is unknown, nothing is held back."""
    guard = decide(gauges(0, 100), 5, 0.95, memory=Memory(needed, available))
    assert guard.may_put is may
    assert ("11 bytes" in guard.why) is not may


def test_the_refusal_has_the_numbers():
    """A refusal says how full the store is, what was wanted, and the watermark."""
    guard = decide(gauges(60 * MIB, 64 * MIB), 16 * MIB, 0.9)
    assert "62914560 of 67108864 bytes" in guard.why
    assert "16777216 more" in guard.why
    assert "90%" in guard.why
    assert "-200" in guard.why


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 50), st.integers(0, 1 << 40), st.floats(0, 1))
def test_an_allowed_put_never_passes_the_watermark(used, capacity, wanted, watermark):
    """Whatever the numbers, an allowed put leaves the store at or below its watermark."""
    if decide(gauges(used, capacity), wanted, watermark).may_put:
        assert used + wanted <= watermark * capacity
