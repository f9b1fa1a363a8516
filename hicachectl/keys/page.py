"""Page keys from tokens: a chain of SHA-256 digests, one for each full page.

Sources: SGLang 0.5.14 `mem_cache/utils.py` (`get_hash_str`) and `mem_cache/radix_cache.py` (`RadixKey.hash_page`);
0.5.23 `mem_cache/utils.py` (`storage_namespace_seed`) and `mem_cache/cpp_utils/hash_binding.cpp`.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterable, Iterator
from struct import iter_unpack

from hicachectl.exits import BadInputError, UsageError
from hicachectl.keys.scheme import scheme_of
from hicachectl.keys.tokens import packed

DIGEST = 32
_SEED_LABEL = b"sglang-cache-namespace-v1"
_WIDE = b"\xff"


def page_keys(
    tokens: Iterable[int],
    page_size: int,
    *,
    sglang: str,
    bigram: bool = False,
    extra_key: str | None = None,
    cache_salt: str | None = None,
) -> list[str]:
    """The hex digest of each full page of TOKENS, chained from the first page on.

    `page_size` counts tokens, or pairs of neighbouring tokens under `bigram` (N tokens make N-1 units). `extra_key` and
    `cache_salt` count where the release puts them into the hash. BadInputError for a token id that the release cannot hash.
    """
    if page_size < 1:
        raise UsageError(f"a page holds at least one token, not {page_size}")
    words = packed(tokens)
    scheme = scheme_of(sglang)
    prior = namespace_seed(extra_key, cache_salt) if scheme.namespace_seed else b""
    count = units(len(words), bigram=bigram) // page_size
    if words.typecode == "I":
        return _chain(_narrow_pages(words, page_size, count, bigram=bigram), prior)
    if not scheme.wide_tokens and any(
        token >= 1 << 32 for token in words[: count * page_size + (bigram and count > 0)]
    ):
        raise BadInputError(f"SGLang {sglang} cannot hash a token id of 2**32 or more; 0.5.23 and later can")
    return _chain(_wide_pages(words, page_size, count, bigram=bigram), prior)


def units(tokens: int, *, bigram: bool) -> int:
    """How many units a page size counts in TOKENS tokens."""
    return max(0, tokens - 1) if bigram else tokens


def namespace_seed(extra_key: str | None, cache_salt: str | None) -> bytes:
    """What stands before the first page where a request has a namespace of its own; empty where it has none.

    An empty `cache_salt` is none (`RadixKey.__init__`), an empty `extra_key` is one.
    """
    cache_salt = cache_salt or None
    if extra_key is None and cache_salt is None:
        return b""
    digest = hashlib.sha256(_SEED_LABEL)
    for part in (extra_key, cache_salt):
        encoded = None if part is None else part.encode()
        digest.update(b"\x00" if encoded is None else b"\x01" + len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def _chain(pages: Iterable[tuple[bytes]], prior: bytes) -> list[str]:
    """The loop that a million pages go through: one digest a page, nothing else."""
    sha256 = hashlib.sha256
    keys: list[str] = []
    append = keys.append
    for (page,) in pages:
        prior = sha256(prior + page).digest()
        append(prior.hex())
    return keys


def _narrow_pages(words: "array[int]", page_size: int, count: int, *, bigram: bool) -> Iterator[tuple[bytes]]:
    """Pages as little-endian 4-byte words."""
    flat = _pairs(words, count * page_size) if bigram else words
    if sys.byteorder == "big":
        flat = array("I", flat)
        flat.byteswap()
    size = page_size * (8 if bigram else 4)
    return iter_unpack(f"{size}s", memoryview(flat).cast("B")[: count * size])


def _wide_pages(words: "array[int]", page_size: int, count: int, *, bigram: bool) -> Iterator[tuple[bytes]]:
    """Pages of which some hold a token that needs 8 bytes: such a page is marked, and all its words are 8 bytes long."""
    for page in range(count):
        raw = words[page * page_size : (page + 1) * page_size + bigram]
        flat = _pairs(raw, page_size) if bigram else raw
        wide = max(raw) >= 1 << 32
        yield (_WIDE * wide + b"".join(word.to_bytes(8 if wide else 4, "little") for word in flat),)


def _pairs(words: "array[int]", count: int) -> "array[int]":
    """The first COUNT pairs of neighbours, flattened."""
    flat = array(words.typecode, bytes(2 * count * words.itemsize))
    flat[0::2] = words[:count]
    flat[1::2] = words[1 : count + 1]
    return flat
