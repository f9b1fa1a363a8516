"""The table of Mooncake's numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicachectl.mooncake import errors
from hicachectl.mooncake.errors import Layer


def test_no_layer_gives_one_number_two_names_in_one_release() -> None:
    """Within a layer and a release a number has one name, signs kept apart."""
    for layer in Layer:
        for release in ("0.3.3", "0.3.11.post1", "0.3.13.post1"):
            rows = errors.rows_of(layer, release)
            assert len({row.number for row in rows}) == len(rows)


def test_every_row_says_what_it_means_and_what_to_check() -> None:
    """No row is without a meaning or without something to check."""
    for row in errors.ALL:
        assert row.meaning.endswith("."), row.name
        assert row.check.endswith((".", "?")), row.name


@pytest.mark.parametrize(
    ("number", "names"),
    [
        (-704, ["OBJECT_NOT_FOUND"]),
        (-200, ["NO_AVAILABLE_HANDLE", "ERR_METADATA"]),
        (-1, ["INTERNAL_ERROR", "ERR_INVALID_ARGUMENT"]),
        (-101, ["SEGMENT_NOT_FOUND", "AVAILABLE_SEGMENT_EMPTY", "ERR_DNS"]),
        (-302, ["ERR_MEMORY"]),
        (4, ["BatchBusy", "DeviceNotFound"]),
        (0, ["OK", "OK", "Ok"]),
        (-5, []),
        (12345, []),
    ],
)
def test_a_number_is_looked_up_in_every_layer(number: int, names: list[str]) -> None:
    """A bare number gives each layer's meaning, the Store's first, and nothing for a number that nobody uses."""
    assert [row.name for row in errors.lookup(number)] == names


@given(st.integers(min_value=-2000, max_value=1100))
def test_the_stores_meaning_is_the_newest_of_its_layer(number: int) -> None:
    """`store` gives a row of the Store that is still in use, exactly where the layer has the number."""
    row = errors.store(number)
    current = [each for each in errors.lookup(number) if each.layer is Layer.store and not each.until]
    assert [row] == current if row else not current


@pytest.mark.parametrize(
    ("release", "count"),
    [("0.3.9", 49), ("0.3.10", 54), ("0.3.11.post1", 59), ("0.3.12", 69), ("0.3.12.post1", 69), ("0.3.13.post1", 72)],
)
def test_each_release_has_the_stores_numbers_that_its_sources_define(release: str, count: int) -> None:
    """The Store's rows of a release are as many as that release's `enum class ErrorCode` has values."""
    assert len(errors.rows_of(Layer.store, release)) == count


def test_a_renamed_number_keeps_its_old_name_for_old_releases() -> None:
    """-101 is AVAILABLE_SEGMENT_EMPTY before 0.3.4 and SEGMENT_NOT_FOUND from there on."""
    names = {
        release: [row.name for row in errors.rows_of(Layer.store, release) if row.number == -101]
        for release in ("0.3.3", "0.3.4")
    }
    assert names == {"0.3.3": ["AVAILABLE_SEGMENT_EMPTY"], "0.3.4": ["SEGMENT_NOT_FOUND"]}
