"""Which neighbouring shape the objects that are there fit."""

from typing import Any

import pytest

from hicachectl.keys.neighbours import fit, guesses
from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import Kind
from hicachectl.keys.shape import Shape

TOKENS = [7 * token % 1009 for token in range(600)]
OTHERS = [f"{key}_0_{part}" for key in page_keys(range(600), 64, sglang="0.5.14") for part in "kv"]


def stored(shape: Shape, tokens: list[int] = TOKENS) -> list[str]:
    """Every key that an engine of SHAPE writes for TOKENS, among those of other prompts."""
    keys = page_keys(
        tokens,
        shape.page_size,
        sglang=shape.sglang,
        bigram=shape.bigram,
        extra_key=shape.extra_key,
        cache_salt=shape.cache_salt,
    )
    return OTHERS + [key for page in keys for key in layout(shape).keys(page)]


ASKED = Shape(page_size=64)
NEW = Shape(page_size=64, sglang="0.5.23", model_name="org/m", extra_key="lora")


@pytest.mark.parametrize(
    ("asked", "there", "changes", "words"),
    [
        (ASKED, ASKED.but(page_size=32), {"page_size": 32}, "under page size 32: 18 of 18 pages have some"),
        (ASKED, ASKED.but(bigram=True), {"bigram": True}, "bigram (pairs of tokens)"),
        (ASKED, ASKED.but(tp_size=4), {"tp_size": 4}, "tp size 4"),
        (ASKED.but(tp_size=2), ASKED, {"tp_size": 1}, "tp size 1"),
        (ASKED.but(tp_size=2, tp_lcm_size=4), ASKED.but(tp_size=4), None, ""),
        (ASKED, ASKED.but(tp_size=2, pp_size=2), {"tp_size": 2, "pp_size": 2}, "pp size 2, tp size 2"),
        (ASKED, ASKED.but(kind=Kind.mla), {"kind": Kind.mla}, "kind mla"),
        (ASKED, ASKED.but(kind=Kind.mla, pp_size=3), {"kind": Kind.mla, "pp_size": 3}, "kind mla, pp size 3"),
        (ASKED, ASKED.but(tag="blue"), {"prefix": "blue"}, "prefix 'blue'"),
        (ASKED, NEW.but(extra_key=None), {"prefix": "org-m"}, "prefix 'org-m'"),
        (NEW.but(extra_key=None), ASKED, {"prefix": None}, "before 0.5.17"),
        (NEW, NEW.but(extra_key=None), {"namespace": False}, "no extra_key"),
        (
            ASKED.but(extra_key="lora", model_name="org/m"),
            NEW,
            {"namespace": True, "prefix": "org-m"},
            "0.5.20 and later",
        ),
        (
            ASKED,
            ASKED.but(page_size=16, bigram=True, tp_size=2, tag="t"),
            {"page_size": 16, "bigram": True, "tp_size": 2, "prefix": "t"},
            "page size 16",
        ),
    ],
)
def test_the_shape_that_objects_fit_is_named(
    asked: Shape, there: Shape, changes: dict[str, Any] | None, words: str
) -> None:
    """Each thing that keeps keys from matching is found from the store's keys alone, and said."""
    found = fit(TOKENS, asked, stored(there))
    assert (found.changes if found else None) == changes
    assert words in (found.sentence if found else "")


def test_a_first_token_too_many_is_noticed() -> None:
    """Tokens that were stored without their first one (a begin-of-sequence token added twice) are found."""
    found = fit([1, *TOKENS], ASKED, stored(ASKED))
    assert found is not None
    assert found.changes == {"without_first_token": True}


def test_the_shape_with_the_longest_run_wins() -> None:
    """Where objects of two shapes are there, the one whose pages reach furthest from the first is named."""
    some, all_ = stored(ASKED.but(page_size=16))[:-40], stored(ASKED.but(page_size=32))
    found = fit(TOKENS, ASKED, some[: len(OTHERS) + 6] + all_)
    assert found is not None
    assert found.changes == {"page_size": 32}


def test_other_prompts_fit_nothing() -> None:
    """A store with objects of other prompts, and keys that are none of SGLang's, give no shape."""
    assert fit(TOKENS, ASKED, [*OTHERS, "x", "sglang_mooncake_store_warmup_key1"]) is None


def test_nothing_to_hash_fits_nothing() -> None:
    """A prompt without tokens fits no shape."""
    assert fit([], ASKED, OTHERS) is None


@pytest.mark.parametrize(
    "there",
    [ASKED.but(page_size=128), ASKED.but(tp_size=2, pp_size=2), ASKED.but(kind=Kind.mla), NEW.but(extra_key=None)],
)
def test_guesses_hold_the_first_page_of_every_neighbour(there: Shape) -> None:
    """Where the store's keys cannot be listed, what is guessed and found there gives the same answer."""
    asked = ASKED.but(model_name="org/m")
    found = fit(TOKENS, asked, set(guesses(TOKENS, asked)) & set(stored(there)))
    whole = fit(TOKENS, asked, stored(there))
    assert found is not None
    assert whole is not None
    assert found.changes == whole.changes
