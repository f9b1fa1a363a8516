"""Page keys and digests as what an index of millions of them holds: a part of the digits, as bytes or a number, many in one step."""

import struct
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import chain

from tracers import vocabulary as v

_KEY = v.PAGE_KEY_DIGITS // 2
_HALF = _KEY // 2
"""Bytes of a page key, and of its first half: a digest of as many bytes names one page as well as the whole does."""
_HALVES = struct.Struct(f"{_HALF}s{_KEY - _HALF}x").iter_unpack
_MOST = 32
"""Prompts remembered: what a request asks for is what its lookup, its get and its put name once more, moments later."""


def page_name(page_key: str) -> Hashable:
    """The first half of a page key, a digest, in a third of the memory of its digits."""
    try:
        return bytes.fromhex(page_key)[:_HALF]
    except ValueError:
        return page_key


@lru_cache(_MOST)
def page_names(joined: str) -> tuple[Hashable, ...]:
    """The same of the page keys that are JOINED without a separator; what is left behind the last whole one is none."""
    count = len(joined) // v.PAGE_KEY_DIGITS
    try:
        digits = bytes.fromhex(joined)
    except ValueError:
        digits = b""
    if count == 0 or len(digits) * 2 != len(joined):
        return tuple(page_name(joined[start : start + v.PAGE_KEY_DIGITS]) for start in range(0, count * v.PAGE_KEY_DIGITS, v.PAGE_KEY_DIGITS))
    return tuple(chain.from_iterable(_HALVES(digits[: count * _KEY])))


def digest_names(joined: str) -> Sequence[Hashable]:
    """Digests of blocks of a prompt that are JOINED, as numbers; where they are not in hex, as they are."""
    size = v.FINGERPRINT_DIGITS
    count = len(joined) // size
    try:
        return struct.unpack_from(f">{count}Q", bytes.fromhex(joined))
    except (ValueError, struct.error):
        return [joined[start : start + size] for start in range(0, count * size, size)]
