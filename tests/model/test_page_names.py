"""Page keys and digests as an index names them."""

from hicachectl.model.names import digest_names, page_name, page_names

KEYS = ["a" * 64, "0123456789abcdef" * 4, "F" * 64]
FOREIGN = "not of hexadecimal digits, but as long as a key of a page must be"[:64]


def test_page_keys_are_named_alike_one_by_one_and_all_at_once() -> None:
    """Joined without a separator, with or without one that is no digest; a rest that is no whole key has no name."""
    assert page_names("".join(KEYS)) == tuple(map(page_name, KEYS))
    assert page_names("".join([*KEYS, FOREIGN])) == (*map(page_name, KEYS), FOREIGN)
    assert page_names("".join(KEYS) + "ab") == page_names("".join(KEYS) + "abc") == page_names("".join(KEYS))
    assert page_names("") == ()


def test_different_pages_have_different_names() -> None:
    """The halves of two digests differ where the digests do."""
    assert len({*page_names("".join(KEYS)), page_name(FOREIGN)}) == 4


def test_digests_of_blocks_are_numbers_where_they_are_digests() -> None:
    """Sixteen digits each; others stay as they are."""
    assert list(digest_names("00000000000000ff" + "0" * 16)) == [255, 0]
    assert list(digest_names("g" * 16 + "0" * 20)) == ["g" * 16, "0" * 16]
    assert list(digest_names("")) == []
