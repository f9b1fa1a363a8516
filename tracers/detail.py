"""What the writer thread works out from what a call left: object detail of a batch, page keys and fingerprint of a prompt."""

import re
import time
from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from tracers import vocabulary as v
from tracers.record import Late

CHUNK = 4096
"""Tokens turned into bytes at a time, so that the interpreter lock is never held long."""
BREATH = 32
"""Digests after which the engine may have the interpreter, which otherwise it would wait 5 ms for."""
MOST_PAGES = 16384
"""Pages of one prompt whose keys are written; what is beyond is said to be cut."""
MOST_BAD = 256
RUN = re.compile(f"[0-9a-f]{{{v.PAGE_KEY_DIGITS},}}")
"""Hex digits, as many as a page key has or more."""
DOMAIN = b"hicachectl prefix fingerprint 1"

Range = tuple[int, int]


SEED_LABEL = b"sglang-cache-namespace-v1"
WIDE = b"\xff"
"""Stands before a page of which a token needs 8 bytes; all its words are then 8 bytes long."""


class PromptKeys(Late):
    """Page keys and prefix fingerprint of a prompt; the tokens stay in this process."""

    __slots__ = ("bigram", "namespace", "page_size", "tokens")

    def __init__(self, tokens: Sequence[int], page_size: int, *, bigram: bool, namespace: tuple[str | None, str | None] = (None, None)) -> None:
        super().__init__(1 + len(tokens) // 8)
        self.tokens = tokens
        self.page_size = page_size
        self.bigram = bigram
        self.namespace = namespace

    def pairs(self) -> list[tuple[str, Any]]:
        """Page keys of every full page, and the fingerprint; nothing where a token is no token id."""
        try:
            words = as_words(self.tokens)
        except (OverflowError, TypeError):
            return [(v.DETAIL_CUT, True)]
        most = MOST_PAGES * self.page_size
        seed = namespace_seed(*self.namespace)
        keys = page_keys(words[: most + 1] if self.bigram else words[:most], self.page_size, bigram=self.bigram, seed=seed)
        pairs: list[tuple[str, Any]] = [(v.PROMPT_PAGE_KEYS, "".join(keys)), (v.FINGERPRINT, "".join(fingerprint(words[:most])))]
        if len(words) > most + self.bigram:
            pairs.append((v.DETAIL_CUT, True))
        return pairs


def namespace_seed(extra_key: str | None, cache_salt: str | None) -> bytes:
    """What is hashed before the first page of a request that has a namespace (SGLang 0.5.23 `mem_cache/utils.py`, storage_namespace_seed)."""
    salt = cache_salt or None
    if extra_key is None and salt is None:
        return b""
    digest = sha256(SEED_LABEL)
    for part in (extra_key, salt):
        encoded = None if part is None else part.encode()
        digest.update(b"\x00" if encoded is None else b"\x01" + len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def as_words(tokens: Sequence[int]) -> "array[int]":
    """Tokens as 32-bit unsigned words, or as 64-bit ones where a token needs it; OverflowError for a negative one."""
    try:
        return _packed("I", tokens)
    except OverflowError:
        return _packed("Q", tokens)


def _packed(code: str, tokens: Sequence[int]) -> "array[int]":
    words = array(code)
    for start in range(0, len(tokens), CHUNK):
        words.extend(array(code, tokens[start : start + CHUNK]))
    return words


def as_bigrams(words: "array[int]") -> "array[int]":
    """Pairs of neighbouring tokens, flattened (SGLang `mem_cache/utils.py`, get_hash_str, EAGLE bigram mode)."""
    count = max(0, len(words) - 1)
    pairs = array(words.typecode, bytes(2 * words.itemsize * count))
    pairs[0::2] = words[:count]
    pairs[1::2] = words[1 : count + 1]
    return pairs


def page_keys(words: "array[int]", page_size: int, *, bigram: bool = False, seed: bytes = b"") -> list[str]:
    """Page keys of every full page: SHA-256 of the previous digest and the page's words, little-endian.

    Sources: SGLang 0.5.14 `mem_cache/utils.py`, get_hash_str; 0.5.23 `mem_cache/cpp_utils/hash_binding.cpp`.
    """
    return _chain(as_bigrams(words) if bigram else words, page_size * (2 if bigram else 1), seed)


def fingerprint(words: "array[int]") -> list[str]:
    """The chain over blocks of FINGERPRINT_BLOCK tokens, the same whatever page size, tag or namespace an engine has."""
    return [digest[: v.FINGERPRINT_DIGITS] for digest in _chain(words, v.FINGERPRINT_BLOCK, DOMAIN)]


def _chain(units: "array[int]", size: int, seed: bytes) -> list[str]:
    """Digests of all full blocks of SIZE units, in hex, each over the one before, or SEED, and the block."""
    digests, digest = [], seed
    for block in _blocks(units, size):
        digest = sha256(digest + block).digest()
        digests.append(digest.hex())
        if not len(digests) % BREATH:
            time.sleep(0)
    return digests


def _blocks(units: "array[int]", size: int) -> Iterator[bytes]:
    """The bytes of all full blocks: 4 a word, or 8 behind a mark where a word of the block needs them."""
    whole = range(size, len(units) + 1, size)
    if units.itemsize == array("I").itemsize:
        for end in whole:
            yield units[end - size : end].tobytes()
        return
    for end in whole:
        block = units[end - size : end]
        yield WIDE + block.tobytes() if max(block) >= 1 << 32 else array("I", block).tobytes()


class Keys(Late):
    """Page keys of an operation, joined by the writer."""

    __slots__ = ("attribute", "keys")

    def __init__(self, keys: Sequence[str], attribute: str = v.PAGE_KEYS) -> None:
        super().__init__(len(keys))
        self.keys = keys
        self.attribute = attribute

    def pairs(self) -> list[tuple[str, Any]]:
        """One attribute with every key."""
        keys = self.keys[:MOST_PAGES]
        pairs: list[tuple[str, Any]] = [(self.attribute, "".join(keys))]
        if len(self.keys) > MOST_PAGES:
            pairs.append((v.DETAIL_CUT, True))
        return pairs


class Objects(Late):
    """Per-object answers of one batch call at the Mooncake binding."""

    __slots__ = ("keys", "pointers", "ranges", "results", "sizes", "success")

    def __init__(
        self, keys: Sequence[str], results: Any, success: str, pointers: Sequence[Any] = (), sizes: Sequence[Any] = (), ranges: tuple[Range, ...] | None = ()
    ) -> None:
        super().__init__(len(keys))
        self.keys = keys
        self.results = results if isinstance(results, (list, tuple)) else [results] * len(keys)
        self.success = success
        self.pointers = pointers
        self.sizes = sizes
        self.ranges = ranges

    def pairs(self) -> list[tuple[str, Any]]:
        """Counts, codes, the objects that failed, the page keys, and whether registered memory covers the buffers."""
        sizes = [sum(size) if isinstance(size, (list, tuple)) else size for size in self.sizes]
        pairs: list[tuple[str, Any]] = [(v.OBJECTS, len(self.keys)), *self._answers(sizes), *key_scheme(self.keys)]
        if sizes:
            pairs.append((v.BYTES_ASKED, sum(sizes)))
            if min(sizes) == max(sizes):
                pairs.append((v.OBJECT_BYTES, sizes[0]))
            pairs.extend(self._coverage())
        return pairs

    def _good(self, index: int, sizes: list[int]) -> bool:
        result = self.results[index]
        if self.success == "exist":
            return bool(result == 1)
        if self.success == "put":
            return bool(result == 0)
        # A get returns the object's size: a smaller object than the buffer is not the page that was asked for.
        return bool(result == sizes[index] if index < len(sizes) else result > 0)

    def _answers(self, sizes: list[int]) -> list[tuple[str, Any]]:
        bad = [index for index in range(len(self.results)) if not self._good(index, sizes)]
        codes: dict[int, int] = {}
        for result in self.results:
            if result < 0 or (self.success == "exist" and result == 0):
                codes[result] = codes.get(result, 0) + 1
        pairs: list[tuple[str, Any]] = [
            (v.OBJECTS_OK, len(self.results) - len(bad)),
            (v.OBJECTS_CODES, [f"{code}={count}" for code, count in sorted(codes.items())] or None),
        ]
        if bad:
            pairs += [
                (v.FIRST_BAD, bad[0]),
                (v.FIRST_BAD_KEY, self.keys[bad[0]] if bad[0] < len(self.keys) else None),
                (v.FIRST_BAD_CODE, self.results[bad[0]]),
                (v.BAD_OBJECTS, bad[:MOST_BAD]),
            ]
            if len(bad) > MOST_BAD:
                pairs.append((v.DETAIL_CUT, True))
        if self.success == "get":
            pairs.append((v.BYTES, sum(result for result in self.results if result > 0)))
        elif self.success == "put" and sizes:
            pairs.append((v.BYTES, sum(size for size, result in zip(sizes, self.results, strict=False) if result == 0)))
        return pairs

    def _coverage(self) -> list[tuple[str, Any]]:
        if self.ranges is None:
            return []
        uncovered, first = 0, None
        for pointer, size in zip(self.pointers, self.sizes, strict=False):
            parts = zip(pointer, size, strict=False) if isinstance(pointer, (list, tuple)) else ((pointer, size),)
            for address, length in parts:
                if not any(low <= address and address + length <= high for low, high in self.ranges):
                    uncovered += 1
                    first = address if first is None else first
        return [(v.RANGES, len(self.ranges)), (v.UNCOVERED, uncovered), (v.FIRST_UNCOVERED, first)]


def key_scheme(keys: Sequence[str]) -> list[tuple[str, Any]]:
    """Object keys as prefix, page keys and suffixes; where they follow no page scheme, the first of them as they are."""
    if not keys:
        return []
    start = _page_key_at(keys[0])
    if start is None:
        return [(v.OBJECT_KEYS, list(keys[:16]))]
    prefix, end = keys[0][:start], start + v.PAGE_KEY_DIGITS
    pages: list[str] = []
    suffixes: list[str] = []
    places: list[tuple[int, str]] = []
    at: dict[str, int] = {}
    for key in keys:
        page = key[start:end]
        if not key.startswith(prefix) or len(page) != v.PAGE_KEY_DIGITS:
            return [(v.OBJECT_KEYS, list(keys[:16]))]
        # From 0.5.23 on one call has the pages of every pool, one pool after the other.
        if page not in at:
            at[page] = len(pages)
            pages.append(page)
        suffix = key[end:]
        if suffix not in suffixes:
            suffixes.append(suffix)
        places.append((at[page], suffix))
    pairs: list[tuple[str, Any]] = [(v.OBJECT_PREFIX, prefix or None), (v.PAGE_KEYS, "".join(pages)), (v.OBJECT_SUFFIXES, suffixes)]
    indices = [page * len(suffixes) + suffixes.index(suffix) for page, suffix in places]
    if indices != list(range(len(pages) * len(suffixes))):
        pairs.append((v.OBJECT_INDICES, indices))
    return pairs


def _page_key_at(key: str) -> int | None:
    """Where the 64 hex digits of a page key begin in an object key; the last such run, since a tag may hold anything."""
    start = None
    for run in RUN.finditer(key):
        if run.end() - run.start() == v.PAGE_KEY_DIGITS:
            start = run.start()
    return start
