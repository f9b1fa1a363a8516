"""Release numbers: their order, and what a recorded one is compared with a table's."""

import pytest

from hicachectl.release import Release, is_since


def test_releases_are_in_order() -> None:
    """What comes before a release, the release, what follows it, and the next one."""
    told = ["0.5.9", "0.5.23.dev1", "0.5.23rc1", "0.5.23", "0.5.23.post1", "0.5.24", "0.6", "1.0"]
    assert sorted(map(Release.of, reversed(told))) == list(map(Release.of, told))


@pytest.mark.parametrize(
    ("text", "since"),
    [("0.5.14", False), ("0.5.23rc1", False), ("0.5.23", True), ("v0.5.23+cu129", True), ("0.5.100", True), ("", None), (None, None), ("main", None)],
)
def test_a_recorded_release_is_compared_or_unknown(text: str | None, since: bool | None) -> None:
    """A recording may hold no release, or one that cannot be read: then nothing is claimed."""
    assert is_since(text, "0.5.23") is since
