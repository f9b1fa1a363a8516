"""What the engine makes of the objects that are there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import Kind, parse
from hicachectl.keys.presence import DEFAULT_THRESHOLD, Presence, engine_would
from hicachectl.keys.shape import Shape

SHAPES = (
    Shape(page_size=4),
    Shape(page_size=4, tp_size=2),
    Shape(page_size=4, tp_size=2, pp_size=2),
    Shape(page_size=4, tp_lcm_size=4),
    Shape(page_size=4, kind=Kind.mla, tp_size=2),
    Shape(page_size=4, kind=Kind.mla, pools=(parse("indexer", "0.5.14"),)),
    Shape(page_size=4, sglang="0.5.23", kind=Kind.mla, tp_size=2, dcp_size=2),
)


def presence(shape: Shape, pages: int, missing: set[tuple[int, int]], answer: int = 0, **windows: int) -> Presence:
    """All objects of PAGES pages are there but for MISSING, pairs of page and object."""
    keys = page_keys(range(pages * shape.page_size), shape.page_size, sglang=shape.sglang)
    count = len(layout(shape).slots)
    answers = [[answer if (page, slot) in missing else 1 for slot in range(count)] for page in range(pages)]
    return Presence(shape, keys, answers, windows)


@given(st.sampled_from(SHAPES), st.integers(0, 12), st.data())
@settings(max_examples=500)
def test_the_contiguous_hit_is_a_brute_force_count(shape: Shape, pages: int, data: st.DataObject) -> None:
    """With objects removed at random, hit, gap and unreachable pages are what counting them one by one gives."""
    count = len(layout(shape).slots)
    spots = st.tuples(st.integers(0, max(0, pages - 1)), st.integers(0, count - 1))
    missing = data.draw(st.sets(spots, max_size=8)) if pages else set()
    found = presence(shape, pages, missing)
    broken = sorted(missing)
    hit = broken[0][0] if broken else pages
    assert found.contiguous_pages == hit
    assert found.unreachable_pages == sum(page not in {page for page, _ in missing} for page in range(hit, pages))
    if broken:
        page, slot = broken[0]
        assert found.gap is not None
        assert found.gap.key == layout(shape).keys(found.page_keys[page])[slot]
    else:
        assert found.gap is None


def test_a_trailing_pool_cuts_at_its_last_state() -> None:
    """Where only the end of a prefix is kept, the hit ends at the last page that has it, and the gap is the state that lacks."""
    shape = Shape(page_size=4, pools=(parse("mamba:0", "0.5.14"),))
    found = presence(shape, 6, {(page, 2) for page in (0, 1, 2, 4, 5)})
    assert (found.contiguous_pages, found.unreachable_pages) == (4, 2)
    assert found.gap is not None
    assert (found.gap.page, found.gap.slot.part) == (5, "mamba")


def test_a_trailing_pool_without_any_state_leaves_nothing() -> None:
    """Without any state of a trailing pool, all pages are there and none can be used."""
    shape = Shape(page_size=4, pools=(parse("mamba:0", "0.5.14"),))
    found = presence(shape, 3, {(page, 2) for page in range(3)})
    assert (found.contiguous_pages, found.unreachable_pages) == (0, 3)


def test_two_trailing_pools_must_meet_since_0_5_19() -> None:
    """Up to 0.5.18 the hit is the shorter of two pools' longest prefixes, later the longest that both can restore."""
    older, newer = ("0.5.14", 3), ("0.5.19", 2)
    for sglang, hit in (older, newer):
        shape = Shape(sglang=sglang, page_size=4, kind=Kind.mla, pools=(parse("swa", sglang), parse("mamba:0", sglang)))
        # swa is there for prefixes of 2 and 4 pages, mamba for 2 and 3.
        missing = {(0, 1), (2, 1), (0, 2), (3, 2)}
        assert presence(shape, 4, missing).contiguous_pages == hit


def test_a_window_of_pages_must_be_whole() -> None:
    """A pool that keeps a window serves a prefix only where all pages of the window are there."""
    shape = Shape(page_size=4, kind=Kind.mla, pools=(parse("swa", "0.5.14"),))
    assert presence(shape, 5, {(3, 1)}, swa=2).contiguous_pages == 3
    assert presence(shape, 5, {(3, 1)}, swa=1).contiguous_pages == 5


def test_the_last_token_is_never_looked_up() -> None:
    """A prompt that ends with a full page is looked up without that page."""
    shape = Shape(page_size=16)
    found = presence(shape, 32, set())
    assert engine_would(found, 512).tokens == 496
    assert engine_would(presence(shape, 32, set()), 513).tokens == 512


@pytest.mark.parametrize(
    ("missing", "tokens", "threshold", "expected"),
    [
        (set(), 257, DEFAULT_THRESHOLD, (True, 256, None)),
        (set(), 256, DEFAULT_THRESHOLD, (False, 0, "HC-R04")),
        ({(15, 0)}, 257, DEFAULT_THRESHOLD, (False, 0, "HC-R12")),
        ({(16, 1)}, 400, DEFAULT_THRESHOLD, (True, 256, "HC-R13")),
        ({(page, 0) for page in range(16, 25)}, 400, DEFAULT_THRESHOLD, (True, 256, None)),
        ({(1, 0)}, 400, 1, (True, 16, "HC-R13")),
        ({(0, 0)}, 400, 1, (False, 0, "HC-R12")),
        ({(0, 0)}, 400, 0, (False, 0, "HC-R12")),
        (set(), 16, 1, (False, 0, "HC-R04")),
        (set(), 0, 0, (False, 0, "HC-R04")),
    ],
)
def test_thresholds_decide_over_fetching(
    missing: set[tuple[int, int]], tokens: int, threshold: int, expected: tuple[bool, int, str | None]
) -> None:
    """No look-up below the threshold of tokens, no fetch below max(threshold, page size), and each end has its code."""
    would = engine_would(presence(Shape(page_size=16), tokens // 16, missing), tokens, threshold)
    assert (would.prefetch, would.tokens, would.code) == expected


def test_a_failed_look_up_is_told_apart_from_a_miss() -> None:
    """Where the store did not answer, the engine counts a miss, and the code says that the look-up failed."""
    found = presence(Shape(page_size=16), 25, {(3, 0)}, answer=-900)
    assert engine_would(found, 401).code == "HC-R101"
    assert found.gap is not None
    assert found.gap.answer == -900


def test_bigram_looks_up_one_unit_less() -> None:
    """Under bigram the prompt without its last token has one unit less than tokens."""
    shape = Shape(page_size=16, bigram=True)
    keys = page_keys(range(258), 16, sglang="0.5.14", bigram=True)
    found = Presence(shape, keys, [[1, 1]] * len(keys))
    assert [engine_would(found, tokens).tokens for tokens in (257, 258)] == [0, 256]


@pytest.mark.parametrize(
    ("sglang", "policy", "words"),
    [
        ("0.5.14", "timeout", "2 s"),
        ("0.5.23", "timeout", "1.1 s"),
        ("0.5.14", "best_effort", "have come"),
        ("0.5.14", "wait_complete", "until all"),
    ],
)
def test_the_policy_is_said_in_words(sglang: str, policy: str, words: str) -> None:
    """What the engine waits for is said by policy, with the deadline of the release."""
    assert words in engine_would(presence(Shape(sglang=sglang, page_size=16), 20, set()), 321, policy=policy).why
