"""The table of steps is whole, and the keys that it makes are a probe's own."""

import pytest

from hicachectl.mooncake.child import BEFORE_SETUP, CALLS
from hicachectl.mooncake.client import WRITES, ClientSettings
from hicachectl.mooncake.probe.plan import PREFIX, Plan
from hicachectl.mooncake.probe.rows import CONNECT, STAGES, Expect, Keys
from hicachectl.mooncake.probe.run import BARE, REMOVE

ROWS = [row for stage in (CONNECT, *STAGES) for row in stage.rows] + [BARE, REMOVE]


def plan(**changes) -> Plan:
    """A small plan."""
    return Plan(ClientSettings("127.0.0.1:1"), **{"size": 100, "pages": 3, **changes})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.step}-{row.call}")
def test_every_row_names_a_call_of_the_child(row):
    """Each row's call exists in the child."""
    assert row.call in CALLS


def test_stages_that_write_say_so():
    """A stage says that it writes exactly where one of its calls does, so that the guard can hold it back."""
    for stage in STAGES:
        assert stage.writes == any(row.call in WRITES for row in stage.rows), stage.name


def test_every_writing_call_of_the_child_is_known_to_the_session():
    """A call that puts objects is in the list of those that are never killed half-way."""
    assert {name for name in CALLS if "put" in name} | {"bare"} == set(WRITES)


def test_what_only_reads_comes_before_the_first_put():
    """A store that takes no put is still asked for a missing key."""
    writes = [stage.writes for stage in STAGES]
    assert writes == sorted(writes)


def test_setup_comes_first_and_alone_needs_no_setup():
    """The first call is setup; every call on keys needs it."""
    assert CONNECT.rows[0].call == "setup"
    assert not any(row.keys is not Keys.none and row.call in BEFORE_SETUP for row in ROWS)


def test_a_row_expects_bytes_only_of_a_read():
    """Only reads are compared with what was put."""
    assert all("get" in row.call for row in ROWS if row.expect is Expect.size)


def test_keys_are_unique_over_rows_rounds_and_runs():
    """No two families, rounds or probes share a key, and each begins with the probe's prefix."""
    plans = [plan(), plan()]
    keys = [
        key
        for one in plans
        for row in {(row.family, row.keys): row for row in ROWS if row.keys is not Keys.none}.values()
        for turn in range(4)
        for key in one.keys(row, turn)
    ]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(f"{PREFIX}-") and "," not in key for key in keys)


def test_rows_of_a_family_share_their_keys():
    """What was put is what is asked for and read in the same round."""
    one = plan()
    for stage in STAGES:
        for family in {row.family for row in stage.rows if row.family}:
            sets = {tuple(one.keys(row, 2)) for row in stage.rows if row.family == family}
            assert len(sets) == 1, stage.name


def test_bytes_of_objects_and_of_a_batch():
    """K and V are objects of --size; an object of a whole page is two of them; a batch is all its pages."""
    by_step = {row.step: row for row in ROWS}
    one = plan()
    assert (one.object_bytes(by_step["batch_put"]), len(one.keys(by_step["batch_put"], 0))) == (100, 6)
    assert (one.object_bytes(by_step["multi_put"]), len(one.keys(by_step["multi_put"], 0))) == (200, 3)
    assert one.batch_bytes == 600


def test_a_comparison_of_bandwidth_has_enough_rounds():
    """With --bench, the batches run often enough, and never less often than was asked."""
    pages = next(stage for stage in STAGES if stage.benched)
    assert plan(bench=True, repeat=2).rounds(pages) == 24
    assert plan(bench=True, repeat=50).rounds(pages) == 50
    assert plan(repeat=2).rounds(pages) == 2


@pytest.mark.parametrize(
    ("release", "expects"),
    [
        ("0.3.11.post1", [Expect.refused]),
        ("0.3.12", [Expect.zero, Expect.zero]),
        ("0.3.13.post1", [Expect.zero, Expect.zero]),
        ("", []),
    ],
)
def test_a_tensor_without_elements_is_judged_by_the_release(release, expects):
    """Before 0.3.12 the store refuses an empty tensor, from then on it takes it; of an unknown release the step is left out."""
    tensors = next(stage for stage in STAGES if stage.name == "tensors").of(release)
    assert [row.expect for row in tensors.rows if row.step == "tensor_empty"] == expects
