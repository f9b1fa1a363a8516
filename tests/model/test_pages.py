"""Which pages were written by whom: pages that share their writes are told together."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hicachectl.model.pages import Pages, Write, alike

ITEMS = (object(), object(), None)


def write(number: int) -> Write:
    """A write of one call at a time of its own."""
    return Write(number, "e", "r", f"{number:016x}", frozenset(("_k",)), True, number, None)


@given(st.lists(st.sampled_from(range(len(ITEMS)))))
def test_what_is_one_and_the_same_is_counted_together(places: list[int]) -> None:
    """Runs are as long as they can be, none is empty, and together they are what was given."""
    found = list(alike([ITEMS[place] for place in places]))
    assert [item for length, item in found for _ in range(length)] == [ITEMS[place] for place in places]
    assert all(length > 0 for length, _ in found)
    assert all(one[1] is not other[1] for one, other in pairwise(found))


def test_equal_writes_of_two_calls_are_not_one() -> None:
    """What counts is whether it is the same write, not whether it reads alike."""
    one, other = write(1), write(1)
    assert one == other
    assert [(length, found is one) for length, found in alike([one, one, other])] == [(2, True), (1, False)]


def test_the_same_pages_are_looked_up_under_each_prefix_and_from_each_place() -> None:
    """A look at the same names again, under another prefix, in part, or from other names that are equal, tells what is there."""
    pages, names = Pages(), (b"a", b"b", b"c", b"d")
    first, second = write(1), write(2)
    pages.add("x_", names[:2], first)
    pages.add("y_", names[1:], second)
    pages.sort()
    assert list(pages.runs("x_", names)) == [(2, (first,)), (2, ())]
    assert list(pages.runs("y_", names)) == [(1, ()), (3, (second,))]
    assert list(pages.runs("x_", names, 1)) == [(1, (first,)), (2, ())]
    assert list(pages.runs("x_", names, 0, 1)) == [(1, (first,))]
    assert list(pages.runs("x_", names[2:])) == [(2, ())]
    assert list(pages.runs("z_", names)) == [(4, ())]
