"""Token ids, packed: what a page's hash is made from."""

import re
from array import array
from collections.abc import Iterable

from hicachectl.exits import BadInputError

WIDEST = (1 << 63) - 1
"""SGLang refuses a token id that does not fit a signed 64-bit word (cpp_utils/hash_binding.cpp)."""

_SEPARATORS = re.compile(r"[\s,]+")


def packed(tokens: Iterable[int]) -> "array[int]":
    """TOKENS as 4-byte words, or as 8-byte words where one needs it; BadInputError for a negative id or one beyond 2**63-1."""
    if isinstance(tokens, array) and tokens.typecode == "I":
        return tokens
    listed = tokens if isinstance(tokens, (list, tuple, array)) else list(tokens)
    try:
        return array("I", listed)
    except OverflowError:
        pass
    except TypeError as error:
        raise BadInputError("a token id is a whole number") from error
    odd = next((token for token in listed if not 0 <= token <= WIDEST), None)
    if odd is not None:
        raise BadInputError(f"{odd} is no token id: expected a whole number from 0 to 2**63-1")
    return array("Q", listed)


def parse(text: str) -> "array[int]":
    """Token ids written as numbers that commas or white space separate, in brackets or not; BadInputError names what is none."""
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        stripped = stripped[1:-1].strip()
    if not stripped:
        return array("I")
    words = _SEPARATORS.split(stripped.strip(","))
    try:
        return packed([int(word) for word in words])
    except ValueError:
        odd = next(index for index, word in enumerate(words) if not _is_number(word))
        raise BadInputError(
            f"item {odd + 1} of the tokens, {words[odd][:40]!r}, is no number: expected numbers separated by commas or white space"
        ) from None


def _is_number(word: str) -> bool:
    try:
        int(word)
    except ValueError:
        return False
    return True
