"""Detail that the writer works out: page keys and fingerprint of a prompt, and the objects of a batch."""

import hashlib
from array import array
from typing import Any

import pytest
from desk import patient
from hypothesis import given
from hypothesis import strategies as st

from hicachectl.keys import page
from tracers import detail
from tracers import vocabulary as v
from tracers.detail import Keys, Objects, PromptKeys, fingerprint, key_scheme

tokens = st.lists(st.integers(0, (1 << 32) - 1), max_size=80)
wide = st.lists(st.integers(0, (1 << 63) - 1), max_size=40)


def keys_of(prompt: PromptKeys) -> list[str]:
    """The page keys that a prompt's detail tells."""
    told = dict(prompt.pairs())[v.PROMPT_PAGE_KEYS]
    return [told[start : start + 64] for start in range(0, len(told), 64)]


@patient
@given(tokens | wide, st.integers(1, 9), st.booleans(), st.none() | st.text(), st.none() | st.text())
def test_page_keys_are_those_of_the_algebra(prompt: list[int], size: int, bigram: bool, extra: str | None, salt: str | None) -> None:
    """The writer's keys equal those of `hicachectl.keys`, which are held against SGLang itself."""
    found = keys_of(PromptKeys(prompt, size, bigram=bigram, namespace=(extra, salt)))
    assert found == page.page_keys(prompt, size, sglang="0.5.23", bigram=bigram, extra_key=extra, cache_salt=salt)


def test_a_page_key_worked_out_by_hand() -> None:
    """The first page hashes its tokens, each later page the digest before it and its tokens; a page that is not full has none."""
    words = b"".join(number.to_bytes(4, "little") for number in (5, 6, 7, 8))
    first = hashlib.sha256(words[:8])
    second = hashlib.sha256(first.digest() + words[8:])
    assert keys_of(PromptKeys([5, 6, 7, 8, 9], 2, bigram=False)) == [first.hexdigest(), second.hexdigest()]


@patient
@given(tokens, st.integers(1, 9), st.integers(1, 9))
def test_the_fingerprint_does_not_depend_on_page_size_or_namespace(prompt: list[int], one: int, other: int) -> None:
    """Two engines that are asked the same prompt tell the same fingerprint, and a prompt that begins alike one that begins alike."""
    plain = dict(PromptKeys(prompt, one, bigram=False).pairs())[v.FINGERPRINT]
    assert dict(PromptKeys(prompt, other, bigram=True, namespace=("tag", None)).pairs())[v.FINGERPRINT] == plain
    longer = dict(PromptKeys([*prompt, 1, 2, 3], one, bigram=False).pairs())[v.FINGERPRINT]
    assert longer.startswith(plain)
    assert len(plain) == len(prompt) // v.FINGERPRINT_BLOCK * v.FINGERPRINT_DIGITS


def test_a_fingerprint_is_no_page_key() -> None:
    """At a page size of one block the two still differ: a fingerprint says nothing about keys in the store."""
    prompt = list(range(64))
    told = dict(PromptKeys(prompt, v.FINGERPRINT_BLOCK, bigram=False).pairs())
    assert not any(key.startswith(block) for key in keys_of(PromptKeys(prompt, 16, bigram=False)) for block in fingerprint(array("I", prompt)))
    assert told[v.FINGERPRINT] != told[v.PROMPT_PAGE_KEYS][: len(told[v.FINGERPRINT])]


@pytest.mark.parametrize("prompt", [[1, -1, 2], [1, "2"], [1, None], [1.5]])
def test_what_are_no_token_ids_has_no_keys(prompt: Any) -> None:
    """Embeddings in the place of tokens, or negative place holders, cost the detail alone."""
    assert PromptKeys(prompt, 1, bigram=False).pairs() == [(v.DETAIL_CUT, True)]


def test_a_prompt_of_very_many_pages_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the first pages are told, and that there were more."""
    monkeypatch.setattr(detail, "MOST_PAGES", 10)
    for bigram, whole in ((False, 20), (True, 21)):
        assert v.DETAIL_CUT not in dict(PromptKeys(list(range(whole)), 2, bigram=bigram).pairs())
        told = dict(PromptKeys(list(range(whole + 5)), 2, bigram=bigram).pairs())
        assert (len(told[v.PROMPT_PAGE_KEYS]), told[v.DETAIL_CUT]) == (640, True)


def test_detail_weighs_by_what_it_holds() -> None:
    """The bound on what waits counts objects, and a prompt by its tokens."""
    assert PromptKeys([0] * 800, 16, bigram=False).weight == 101
    assert Keys(["a"] * 7).weight == 7
    assert Objects(["a"] * 5, [1] * 5, "exist").weight == 5


def test_keys_of_an_operation_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page keys are one string; beyond the bound the first are told."""
    assert Keys(["a" * 64, "b" * 64]).pairs() == [(v.PAGE_KEYS, "a" * 64 + "b" * 64)]
    assert Keys(["c"], v.ANCHOR).pairs() == [(v.ANCHOR, "c")]
    monkeypatch.setattr(detail, "MOST_PAGES", 1)
    assert Keys(["a", "b"]).pairs() == [(v.PAGE_KEYS, "a"), (v.DETAIL_CUT, True)]


PAGES = [hashlib.sha256(bytes([number])).hexdigest() for number in range(4)]


def names(pages: list[str], suffixes: list[str], prefix: str = "") -> list[str]:
    """Object keys, page by page."""
    return [prefix + each + suffix for each in pages for suffix in suffixes]


prefixes = st.sampled_from(["", "tag_", "0" * 64 + "_", "af", "é_"])
endings = st.lists(st.sampled_from(["_k", "_v", "_0_k", "_0_v", "", "_mamba_0"]), min_size=1, max_size=4, unique=True)


@patient
@given(prefixes, endings, st.integers(1, 4), st.sets(st.integers(0, 15)))
def test_object_keys_can_be_told_by_prefix_pages_and_suffixes(prefix: str, suffixes: list[str], count: int, without: set[int]) -> None:
    """Whatever objects of a page are in the call, prefix, page keys, suffixes and indices give back every key."""
    if prefix == "af":
        # A tag of hex digits that touches the page key cannot be told from it.
        prefix = "af_"
    every = names(PAGES[:count], suffixes, prefix)
    keys = [key for index, key in enumerate(every) if index not in without]
    told = dict(key_scheme(keys))
    if not keys:
        assert told == {}
        return
    pages = [told[v.PAGE_KEYS][start : start + 64] for start in range(0, len(told[v.PAGE_KEYS]), 64)]
    again = names(pages, told[v.OBJECT_SUFFIXES], told[v.OBJECT_PREFIX] or "")
    assert [again[index] for index in told.get(v.OBJECT_INDICES, range(len(again)))] == keys


@pytest.mark.parametrize("keys", [["x"] * 20, [PAGES[0] + "_k", "other"], ["short", PAGES[0]]])
def test_keys_of_another_scheme_are_told_as_they_are(keys: list[str]) -> None:
    """Keys that follow no page scheme are listed, the first sixteen."""
    assert key_scheme(keys) == [(v.OBJECT_KEYS, keys[:16])]


def told_of(*args: Any, **named: Any) -> dict[str, Any]:
    """What a batch tells, without what it leaves out."""
    return {key: value for key, value in Objects(*args, **named).pairs() if value is not None}


def test_answers_of_an_existence_call() -> None:
    """1 is there, 0 is not, below is an error; each code but 1 is counted."""
    told = told_of(names(PAGES, [""]), [1, 0, -704, 1], "exist")
    assert (told[v.OBJECTS], told[v.OBJECTS_OK], told[v.OBJECTS_CODES]) == (4, 2, ["-704=1", "0=1"])
    assert (told[v.FIRST_BAD], told[v.FIRST_BAD_KEY], told[v.FIRST_BAD_CODE], told[v.BAD_OBJECTS]) == (1, PAGES[1], 0, [1, 2])
    assert v.BYTES not in told


def test_answers_of_a_put() -> None:
    """0 is written, and the bytes are those of what was written."""
    told = told_of(names(PAGES, [""]), [0, -200, 0, 0], "put", pointers=[0, 10, 20, 30], sizes=[10] * 4, ranges=((0, 40),))
    assert (told[v.OBJECTS_OK], told[v.BYTES], told[v.BYTES_ASKED], told[v.OBJECT_BYTES]) == (3, 30, 40, 10)
    assert (told[v.RANGES], told[v.UNCOVERED]) == (1, 0)


def test_a_get_of_fewer_bytes_than_the_buffer_is_no_page() -> None:
    """A get returns the object's size: a short object is told as the first bad one, with its bytes."""
    told = told_of(names(PAGES, [""]), [10, 7, -704, 10], "get", pointers=[0, 10, 20, 30], sizes=[10] * 4)
    assert (told[v.OBJECTS_OK], told[v.FIRST_BAD], told[v.FIRST_BAD_CODE], told[v.BYTES]) == (2, 1, 7, 27)
    assert (told[v.OBJECTS_CODES], told[v.UNCOVERED], told[v.FIRST_UNCOVERED]) == (["-704=1"], 4, 0)


def test_buffers_of_several_parts_are_covered_part_by_part() -> None:
    """Each part of an object has to lie within one registered range; neighbouring ranges do not join."""
    told = told_of([PAGES[0]], [20], "get", pointers=[[0, 95]], sizes=[[10, 10]], ranges=((0, 100), (100, 200)))
    assert (told[v.OBJECTS_OK], told[v.UNCOVERED], told[v.FIRST_UNCOVERED], told[v.BYTES_ASKED]) == (1, 1, 95, 20)


def test_very_many_bad_objects_are_cut_and_counted() -> None:
    """Indices of the first bad objects are told, and the number of all."""
    told = told_of(["x"] * 1000, [0] * 1000, "exist")
    assert (told[v.OBJECTS_OK], len(told[v.BAD_OBJECTS]), told[v.DETAIL_CUT]) == (0, detail.MOST_BAD, True)


def test_one_answer_for_all_is_an_answer_for_each() -> None:
    """A binding that returns one code for the whole batch says it of each object."""
    assert told_of(["x", "y"], -1, "put")[v.OBJECTS_CODES] == ["-1=2"]
