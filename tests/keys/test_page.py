"""Page keys from tokens."""

import hashlib
import struct
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicachectl.exits import BadInputError, UsageError
from hicachectl.keys.page import namespace_seed, page_keys
from hicachectl.keys.tokens import packed, parse

NEWEST = "0.5.23"
WORDS = st.lists(st.integers(0, (1 << 32) - 1), max_size=60)


def chained(pages: list[bytes], prior: bytes = b"") -> list[str]:
    """A chain of digests, one a page."""
    found = []
    for page in pages:
        prior = hashlib.sha256(prior + page).digest()
        found.append(prior.hex())
    return found


@given(WORDS, st.integers(1, 7))
def test_a_page_key_is_a_chained_digest_of_little_endian_words(tokens: list[int], size: int) -> None:
    """Each full page is the digest of the one before and of its tokens as 4-byte little-endian words; a rest has no key."""
    pages = [struct.pack(f"<{size}I", *tokens[at : at + size]) for at in range(0, len(tokens) // size * size, size)]
    assert page_keys(tokens, size, sglang="0.5.14") == chained(pages)


@given(WORDS, st.integers(1, 7))
def test_bigram_pages_overlap_by_one_token(tokens: list[int], size: int) -> None:
    """Under bigram a unit is a pair of neighbours, N tokens make N-1 units, and neighbouring pages share a token."""
    pairs = [pair for each in pairwise(tokens) for pair in each]
    count = max(0, len(tokens) - 1) // size
    pages = [struct.pack(f"<{2 * size}I", *pairs[2 * size * page : 2 * size * (page + 1)]) for page in range(count)]
    assert page_keys(tokens, size, sglang="0.5.14", bigram=True) == chained(pages)


@given(WORDS, st.integers(1, 7), st.booleans())
def test_a_prefix_has_the_first_keys_of_the_whole(tokens: list[int], size: int, bigram: bool) -> None:
    """Cutting tokens off the end changes no key of a page that is still full."""
    whole = page_keys(tokens, size, sglang=NEWEST, bigram=bigram)
    part = page_keys(tokens[: len(tokens) // 2], size, sglang=NEWEST, bigram=bigram)
    assert part == whole[: len(part)]


@given(WORDS)
def test_every_way_to_hold_tokens_gives_the_same_keys(tokens: list[int]) -> None:
    """A list, a tuple, an iterator and arrays of 4 or 8 bytes a token hash alike."""
    expected = page_keys(tokens, 4, sglang=NEWEST)
    for held in (tuple(tokens), iter(tokens), array("I", tokens), array("q", tokens), array("Q", tokens)):
        assert page_keys(held, 4, sglang=NEWEST) == expected


def test_known_keys() -> None:
    """Keys that SGLang gives for 0..31 with pages of 16 stay what they were."""
    plain = page_keys(range(32), 16, sglang="0.5.14")
    assert plain == [
        "5d85718ec594b982c252d0279e5966ffca33a5eaf2a455038d3ab331fde70cea",
        "4681c0107c38f402cd1bc30b0b09a65202dba31f98269d9d7f63f5e0dea6901a",
    ]
    assert page_keys(range(32), 16, sglang=NEWEST) == plain


def test_a_wide_token_changes_its_page_only_in_form() -> None:
    """A page with a token of 2**32 or more is one 0xff byte and 8-byte words; its neighbours stay narrow; older releases refuse it."""
    tokens = [1, 2, 3, 1 << 32, 5, 6]
    pages = [struct.pack("<2I", 1, 2), b"\xff" + struct.pack("<2Q", 3, 1 << 32), struct.pack("<2I", 5, 6)]
    assert page_keys(tokens, 2, sglang=NEWEST) == chained(pages)
    with pytest.raises(BadInputError, match=r"2\*\*32"):
        page_keys(tokens, 2, sglang="0.5.22")


def test_a_wide_token_in_the_rest_hurts_no_release() -> None:
    """A token that no full page holds is not hashed."""
    assert page_keys([1, 2, 1 << 40], 2, sglang="0.5.14") == page_keys([1, 2], 2, sglang="0.5.14")


def test_a_namespace_seeds_the_chain_since_0_5_20() -> None:
    """extra_key and cache_salt change every page key from 0.5.20 on and none before, and neither can pass for the other."""
    tokens = range(8)
    plain = page_keys(tokens, 4, sglang="0.5.19", extra_key="lora")
    assert plain == page_keys(tokens, 4, sglang="0.5.19")
    seeds = [(None, None), ("a", None), (None, "a"), ("", None), ("a", "b"), ("ab", None)]
    keys = {tuple(page_keys(tokens, 4, sglang="0.5.20", extra_key=extra, cache_salt=salt)) for extra, salt in seeds}
    assert len(keys) == len(seeds)
    assert tuple(plain) in keys


def test_an_empty_salt_is_none_and_an_empty_extra_key_is_one() -> None:
    """SGLang drops an empty cache_salt before it hashes, and keeps an empty extra_key."""
    assert namespace_seed(None, "") == b""
    assert namespace_seed("", None) != b""


@pytest.mark.parametrize("sglang", ["0.5.13", "0.4.0", "main", ""])
def test_an_unknown_release_is_refused(sglang: str) -> None:
    """No keys are guessed for a release older than the oldest known one, or for what is no release."""
    with pytest.raises(UsageError, match="SGLang"):
        page_keys([1], 1, sglang=sglang)


@pytest.mark.parametrize("tokens", [[-1], [1 << 63], [1.5], ["1"]])
def test_what_is_no_token_is_refused(tokens: list[int]) -> None:
    """A negative number, one beyond 63 bits, a fraction and a text are no token ids."""
    with pytest.raises(BadInputError, match="token id"):
        packed(tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1,2 3\n4\t5", [1, 2, 3, 4, 5]),
        ("[1, 2]", [1, 2]),
        ("", []),
        (" \n", []),
        ("7,", [7]),
        ("4294967296 1", [4294967296, 1]),
    ],
)
def test_tokens_are_read_from_text(text: str, tokens: list[int]) -> None:
    """Numbers separated by commas or white space, in brackets or not, are read."""
    assert list(parse(text)) == tokens


def test_the_first_word_that_is_no_number_is_named() -> None:
    """The error says which item is none, and shows it."""
    with pytest.raises(BadInputError, match=r"item 3 .*'x9'"):
        parse("1, 2, x9, y")
