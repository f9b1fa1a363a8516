"""When nothing matches: which neighbouring shape the objects that are there fit.

The keys of a store are looked through for page keys that these tokens have under other page sizes, with or without pairs, with
or without a namespace. What stands before and after such a page key tells the rest: prefix, ranks, stages, layout.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hicachectl.exits import BadInputError
from hicachectl.keys.decode import MODEL_PREFIX_SINCE, Reading, decode
from hicachectl.keys.page import namespace_seed, page_keys
from hicachectl.keys.pools import Kind
from hicachectl.keys.scheme import SCHEMES, scheme_of
from hicachectl.keys.shape import Shape

PAGE_SIZES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
RANKS, STAGES = 8, 4
"""How many ranks and stages are guessed where the store's keys cannot be listed."""

NEWEST = SCHEMES[-1].since
NAMESPACE_SINCE = next(row.since for row in SCHEMES if row.namespace_seed)
_HASH = re.compile(r"[0-9a-f]{64}(?=_)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to hash the tokens: what differs from the asked shape, and the page keys."""

    changes: dict[str, Any]
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class Fit:
    """The shape that the objects fit: changes of the asked one, pages that are there, one of their keys, and a sentence."""

    changes: dict[str, Any]
    pages: int
    of_pages: int
    example: str
    sentence: str


@dataclass(slots=True)
class _Group:
    """Objects of one candidate under one prefix and layout."""

    candidate: Candidate
    prefix: str | None
    kind: Kind
    pages: set[int] = field(default_factory=set)
    heads: set[int] = field(default_factory=set)
    stages: set[int | None] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    example: str = ""

    @property
    def run(self) -> int:
        """Pages from the first one on."""
        return next(page for page in range(len(self.pages) + 1) if page not in self.pages)

    @property
    def layout(self) -> tuple[Kind, int, int]:
        """Kind, ranks and stages. One number before `k`, and nowhere a `v`, is a stage of ranks that share their data."""
        if self.kind is Kind.mha and self.parts == {"k"} and self.stages == {None}:
            return Kind.mla, 1, max(self.heads) + 1
        stages = 1 + max((stage for stage in self.stages if stage is not None), default=0)
        return self.kind, max(self.heads, default=0) + 1, stages


def candidates(tokens: Sequence[int], shape: Shape) -> Iterator[Candidate]:
    """Every way to hash TOKENS, the asked one first, each with what differs from SHAPE."""
    sizes = dict.fromkeys((shape.page_size, *(size for size in PAGE_SIZES if size <= len(tokens))))
    # Releases differ in whether a namespace counts, and in that the newest hashes every token.
    spaces = (
        (shape.sglang, shape.extra_key, shape.cache_salt),
        (NEWEST, shape.extra_key, shape.cache_salt),
        (NEWEST, None, None),
    )
    asked = _space(*spaces[0])
    seen: set[str] = set()
    for size, bigram, space, skipped in product(sizes, (shape.bigram, not shape.bigram), spaces, (0, 1)):
        sglang, extra, salt = space
        hashed: dict[str, Any] = {"sglang": sglang, "bigram": bigram, "extra_key": extra, "cache_salt": salt}
        rest = tokens[skipped:]
        try:
            first = page_keys(rest[: size + bigram], size, **hashed)
            if not first or first[0] in seen:
                continue
            keys = page_keys(rest, size, **hashed)
        except BadInputError:
            continue  # this release cannot hash a token of these
        seen.add(first[0])
        changes: dict[str, Any] = {} if size == shape.page_size else {"page_size": size}
        changes |= {} if bigram == shape.bigram else {"bigram": bigram}
        changes |= {} if _space(*space) == asked else {"namespace": _space(*space) != b""}
        yield Candidate(changes | ({"without_first_token": True} if skipped else {}), keys)


def _space(sglang: str, extra_key: str | None, cache_salt: str | None) -> bytes:
    """What a release puts in front of the first page."""
    return namespace_seed(extra_key, cache_salt) if scheme_of(sglang).namespace_seed else b""


def fit(tokens: Sequence[int], shape: Shape, there: Iterable[str]) -> Fit | None:
    """The shape that most pages of TOKENS among the keys THERE fit; None where none of them is of these tokens.

    The asked shape itself is no answer: only a difference is.
    """
    places: dict[str, list[tuple[Candidate, int]]] = defaultdict(list)
    for candidate in candidates(tokens, shape):
        for page, key in enumerate(candidate.keys):
            places[key].append((candidate, page))
    groups: dict[tuple[int, str | None, Kind], _Group] = {}
    for key in there:
        for page_key in _HASH.findall(key):
            for candidate, page in places.get(page_key, ()):
                _add(groups, candidate, page, key)
    fits = [_told(group, shape) for group in sorted(groups.values(), key=_rank, reverse=True)]
    return next((each for each in fits if each.changes), None)


def guesses(tokens: Sequence[int], shape: Shape) -> list[str]:
    """Keys of the first page under every neighbouring shape, to be asked for where the store's keys cannot be listed."""
    names = [None, shape.model_name.replace("/", "-"), shape.model_name.split("/")[-1]] if shape.model_name else [None]
    prefixes = dict.fromkeys(
        "_".join(part for part in (tag, name) if part is not None)
        for tag in dict.fromkeys((shape.tag, None))
        for name in names
    )
    suffixes = ["__k", *(f"_{rank}_{part}" for rank in range(RANKS) for part in "kv")]
    suffixes += [f"_{rank}_{stage}_{part}" for rank in range(RANKS) for stage in range(STAGES) for part in "kv"]
    return [
        f"{prefix}_{candidate.keys[0]}{suffix}" if prefix else f"{candidate.keys[0]}{suffix}"
        for candidate in candidates(tokens, shape)
        for prefix in prefixes
        for suffix in suffixes
    ]


def _add(groups: dict[tuple[int, str | None, Kind], _Group], candidate: Candidate, page: int, key: str) -> None:
    decoded = decode(key)
    reading = _of_kv(decoded.readings)
    if reading is None or reading.kind is None:
        return
    place = (id(candidate), decoded.prefix, reading.kind)
    group = groups.setdefault(place, _Group(candidate, decoded.prefix, reading.kind))
    if page < min(group.pages, default=page + 1):
        group.example = key
    group.pages.add(page)
    group.heads.update(reading.heads)
    group.stages.add(reading.pp_rank)
    group.parts.add(reading.part)


def _of_kv(readings: Sequence[Reading]) -> Reading | None:
    return next((each for each in readings if each.part in {"k", "v"} and each.writer == "HiCache"), None)


def _rank(group: _Group) -> tuple[int, int, int]:
    return group.run, len(group.pages), -len(group.candidate.changes)


def _told(group: _Group, shape: Shape) -> Fit:
    changes = dict(group.candidate.changes)
    kind, tp_size, pp_size = group.layout
    found: dict[str, Any] = {"kind": kind, "pp_size": pp_size}
    if kind is Kind.mha:
        found["tp_size"] = tp_size
    asked = {"kind": shape.kind, "pp_size": shape.pp_size, "tp_size": shape.tp_size * shape.split_factor}
    changes |= {name: value for name, value in found.items() if value != asked[name]}
    if (group.prefix or "") != shape.prefix[:-1]:
        changes["prefix"] = group.prefix
    count = len(group.candidate.keys)
    words = ", ".join(_SAID.get(name, _said)(name, value) for name, value in changes.items())
    sentence = f"objects of these tokens exist under {words}: {len(group.pages)} of {count} pages have some"
    return Fit(changes, len(group.pages), count, group.example, sentence)


def _said(name: str, value: Any) -> str:
    return f"{name.replace('_', ' ')} {getattr(value, 'value', value)}"


def _said_prefix(_: str, value: Any) -> str:
    if value is None:
        return f"no prefix (SGLang before {MODEL_PREFIX_SINCE}, no tag)"
    return f"prefix '{value}' (tag, model name, or both)"


_SAID: dict[str, Callable[[str, Any], str]] = {
    "prefix": _said_prefix,
    "bigram": lambda _, value: "bigram (pairs of tokens)" if value else "single tokens, not bigram",
    "namespace": lambda _, value: (
        f"extra_key and cache_salt in the hash (SGLang {NAMESPACE_SINCE} and later)"
        if value
        else "no extra_key and no cache_salt"
    ),
    "without_first_token": lambda *_: "the tokens without their first",
    "tp_size": lambda _, value: f"tp size {value}",
    "pp_size": lambda _, value: f"pp size {value}",
}
