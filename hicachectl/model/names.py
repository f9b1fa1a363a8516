"""Page keys and digests as what an index of millions of them holds: a part of the digits, as bytes or a number, many in one step."""

import struct
from collections.abc import Hashable, Sequence

from tracers import vocabulary as v

_HALF = v.PAGE_KEY_DIGITS // 4
"""Bytes of the first half of a page key: a digest of as many bytes names one page as well as the whole does."""


def page_name(page_key: str) -> Hashable:
    """The first half of a page key, a digest, in a third of the memory of its digits."""
    try:
        return bytes.fromhex(page_key)[:_HALF]
    except ValueError:
        return page_key


def page_names(page_keys: Sequence[str]) -> list[Hashable]:
    """The same of many."""
    try:
        digits = bytes.fromhex("".join(page_keys))
    except ValueError:
        digits = b""
    if len(digits) != 2 * _HALF * len(page_keys):
        return [page_name(key) for key in page_keys]
    return [digits[start : start + _HALF] for start in range(0, len(digits), 2 * _HALF)]


def digest_names(digests: Sequence[str]) -> Sequence[Hashable]:
    """Digests of blocks of a prompt as numbers; those of another length, or not in hex, as they are."""
    try:
        return struct.unpack(f">{len(digests)}Q", bytes.fromhex("".join(digests)))
    except (ValueError, struct.error):
        return digests
