"""From answers to a step's row."""

import pytest

from hicachectl.mooncake.client import Answer
from hicachectl.mooncake.probe.measure import Measure
from hicachectl.mooncake.probe.report import percentile
from hicachectl.mooncake.probe.rows import Expect


def measured(expect: Expect, *answers: Answer, size: int = 1000, moves: bool = True):
    """The row of a step that got these answers."""
    measure = Measure("step", expect)
    for answer in answers:
        measure.add(answer, expect, size, moves=moves)
    return measure.result()


def test_a_good_step_has_count_bytes_percentiles_and_bandwidth():
    """Objects and bytes add up, percentiles are of the calls, and bandwidth is a call's bytes over its median time."""
    answers = [Answer((0, 0), (seconds,)) for seconds in (0.001, 0.002, 0.009)]
    row = measured(Expect.zero, *answers)
    assert (row.ok, row.code, row.code_name, row.n, row.calls, row.bytes) == (True, 0, "OK", 6, 3, 6000)
    assert (row.p50_ms, row.p99_ms, row.gb_per_s) == (2.0, 9.0, 0.001)


@pytest.mark.parametrize(
    ("expect", "code", "right", "name"),
    [
        (Expect.zero, 0, True, "OK"),
        (Expect.zero, -200, False, "NO_AVAILABLE_HANDLE"),
        (Expect.yes, 1, True, "EXISTS"),
        (Expect.yes, 0, False, "MISSING"),
        (Expect.yes, -900, False, "RPC_FAIL"),
        (Expect.no, 0, True, "MISSING"),
        (Expect.no, 1, False, "EXISTS"),
        (Expect.missing, -704, True, "OBJECT_NOT_FOUND"),
        (Expect.missing, 1000, False, "UNKNOWN"),
        (Expect.refused, -600, True, "INVALID_PARAMS"),
        (Expect.refused, 0, False, "OK"),
        (Expect.size, 1000, True, "OK"),
        (Expect.size, 999, False, "WRONG_SIZE"),
        (Expect.size, -800, False, "TRANSFER_FAIL"),
        (Expect.zero, -12345, False, "UNKNOWN"),
    ],
)
def test_what_is_right_depends_on_what_was_expected(expect, code, right, name):
    """A code is right or wrong by what the step expects, and is named by the table."""
    row = measured(expect, Answer((code,), (0.001,), same=True))
    assert (row.ok, row.code_name) == (right, name)
    assert row.meaning


def test_wrong_bytes_are_a_failure_although_the_code_is_right():
    """A full length with other bytes fails the step."""
    row = measured(Expect.size, Answer((1000,), (0.001,), same=False))
    assert (row.ok, row.code, row.code_name) == (False, 0, "WRONG_BYTES")


def test_a_partial_failure_counts_its_objects():
    """Of a batch, the first bad code is told with how many objects gave it, and only good objects' bytes count."""
    row = measured(Expect.zero, Answer((0, -800, 0, -800, -200), (0.001,)))
    assert (row.ok, row.code, row.bytes) == (False, -800, 2000)
    assert "(2 of 5 objects)" in row.meaning


def test_what_moves_no_bytes_has_no_bandwidth():
    """An existence check has neither bytes nor bandwidth; nor has a read of what is missing."""
    assert measured(Expect.yes, Answer((1,), (0.001,)), moves=False).gb_per_s is None
    assert measured(Expect.missing, Answer((-704,), (0.001,)), moves=True).bytes == 0


def test_a_call_without_an_answer_has_no_code():
    """Where no answer came, the code is None, and what was measured before stays."""
    measure = Measure("get", Expect.size)
    measure.add(Answer((10,), (0.5,), same=True), Expect.size, 10, moves=True)
    row = measure.unanswered("TIMEOUT", "why", "what next")
    assert (row.ok, row.code, row.code_name, row.n, row.p50_ms) == (False, None, "TIMEOUT", 1, 500.0)


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentiles_are_by_nearest_rank(share, value):
    """A percentile is a value that was measured."""
    assert percentile([float(number) for number in range(100, 0, -1)], share) == value


def test_a_step_of_mixed_calls_has_no_bandwidth():
    """Where some calls of a step move bytes and others do not, a bandwidth would mean nothing."""
    measure = Measure("warm_up", Expect.zero)
    measure.add(Answer((0,), (0.001,)), Expect.zero, 1000, moves=True)
    measure.add(Answer((1,), (0.001,)), Expect.yes, 1000, moves=False)
    row = measure.result()
    assert (row.bytes, row.gb_per_s) == (1000, None)
