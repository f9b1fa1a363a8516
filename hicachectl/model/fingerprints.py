"""Who was asked the same prompt under other keys: prefix fingerprints of requests whose pages were written."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import Engine
from hicachectl.model.pages import Pages, Write
from tracers import vocabulary as v


@dataclass(frozen=True, slots=True)
class Twin:
    """A request that shares a prefix, and the page under which its engine has written it."""

    attempt: Attempt
    tokens: int
    """Tokens of the shared prefix that were compared."""
    page_key: str
    prefix: str
    writes: tuple[Write, ...]


class Fingerprints:
    """Which requests have a block of tokens, with all that comes before it; found by the block's digest.

    Of requests whose engine names the pages there alike, the first stands for all: what is said of one holds for the others.
    """

    def __init__(self) -> None:
        # Millions of blocks, nearly all of them of one request: a list for each would be most of the memory.
        self._one: dict[Hashable, Attempt] = {}
        self._more: dict[Hashable, dict[Hashable, Attempt]] = {}
        self._looked_at: set[Attempt] = set()

    def forget(self) -> None:
        """Let go of what was decoded of the requests that were compared."""
        for attempt in self._looked_at:
            attempt.forget()
        self._looked_at.clear()

    def add(self, attempt: Attempt, blocks: range) -> None:
        """Enter the request under the digests of BLOCKS."""
        names = attempt.blocks[blocks.start : blocks.stop : blocks.step]
        firsts = list(map(self._one.get, names))
        if not any(firsts):
            self._one.update(dict.fromkeys(names, attempt))
            return
        for first, run in groupby(zip(firsts, blocks, names, strict=True), itemgetter(0)):
            if first is None:
                self._one.update((name, attempt) for _, _, name in run)
            elif first is not attempt:
                self._looked_at.add(first)
                alike = _common(first, attempt)
                self._beside(first, attempt, [(block, name) for _, block, name in run if _pages_of(attempt, block).stop > alike])

    def _beside(self, first: Attempt, attempt: Attempt, blocks: Iterable[tuple[int, Hashable]]) -> None:
        """Enter the request under digests that FIRST has as well, unless its engine names the pages there as FIRST's does."""
        for block, digest in blocks:
            name, named = _names(attempt, block), self._more.get(digest)
            if named is not None:
                named.setdefault(name, attempt)
            elif name != _names(first, block):
                self._more[digest] = {_names(first, block): first, name: attempt}

    def shared(self, own: Attempt) -> bool:
        """Whether another request has a block of this one."""
        return bool(self._one) and not (self._more.keys().isdisjoint(own.blocks) and {own, None}.issuperset(map(self._one.get, own.blocks)))

    def twins(self, own: Attempt, end_token: int, pages: Pages, time_ns: int) -> Iterator[Twin]:
        """Requests that share the first END_TOKEN tokens, by a block that covers them all, and wrote them under another key by a time."""
        block = -(-end_token // v.FINGERPRINT_BLOCK) - 1
        if not 0 <= block < len(own.blocks):
            return
        for other in self._sharing(own.blocks[block]):
            self._looked_at.add(other)
            found = _written(other, end_token, pages, time_ns) if other is not own else None
            if found is not None and _differs(own, found):
                yield found

    def _sharing(self, digest: Hashable) -> Iterable[Attempt]:
        named = self._more.get(digest)
        if named is not None:
            return named.values()
        one = self._one.get(digest)
        return () if one is None else (one,)


def _names(attempt: Attempt, block: int) -> Hashable:
    """How the request's engine names the pages that `_written` may look at for a block: their end, or that of the page before, lies in it."""
    pages = _pages_of(attempt, block)
    return (attempt.engine.id, attempt.key_prefix, attempt.key_suffixes, *attempt.page_keys[pages.start : pages.stop])


def _pages_of(attempt: Attempt, block: int) -> range:
    page = attempt.engine.page_size
    return range(max(0, block * v.FINGERPRINT_BLOCK // page - 1), -(-(block + 1) * v.FINGERPRINT_BLOCK // page))


def _common(one: Attempt, other: Attempt) -> int:
    """How many pages, from the first on, the engines of two requests name alike."""
    if one.engine is not other.engine or (one.key_prefix, one.key_suffixes) != (other.key_prefix, other.key_suffixes):
        return 0
    pairs = zip(one.page_names, other.page_names, strict=False)
    return next((place for place, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(one.page_names), len(other.page_names)))


def _written(other: Attempt, end_token: int, pages: Pages, time_ns: int) -> Twin | None:
    engine = other.engine
    index = -(-end_token // engine.page_size) - 1
    keys = other.page_keys
    # The other engine's pages may end a little before the token: its last full page inside the prefix counts.
    index = min(index, end_token // engine.page_size - 1) if index >= len(keys) else index
    if not 0 <= index < len(keys):
        return None
    writes = pages.known(pages.of(other.key_prefix, keys[index]), other.key_suffixes, time_ns)
    if not writes:
        return None
    return Twin(other, end_token // v.FINGERPRINT_BLOCK * v.FINGERPRINT_BLOCK, keys[index], other.key_prefix, tuple(writes))


def _differs(own: Attempt, twin: Twin) -> bool:
    mine, theirs = own.engine, twin.attempt.engine
    return (
        mine.page_size != theirs.page_size
        or mine.tp_size != theirs.tp_size
        or mine.number(v.PP_SIZE) != theirs.number(v.PP_SIZE)
        or mine.tenant != theirs.tenant
        or own.key_prefix != twin.attempt.key_prefix
        or own.key_suffixes != twin.attempt.key_suffixes
        or twin.page_key not in own.page_keys
    )


def _schemes(engine: Engine) -> Iterator[tuple[object, ...]]:
    """All that makes an engine name the pages of the same tokens in another way, for each store client that it has had."""
    release = tuple((engine.sglang or "").split(".")[:3])
    own = (engine.page_size, engine.tp_size, engine.number(v.PP_SIZE), engine.tenant, bool(engine.setting(v.BIGRAM)), release)
    for at_ns in [span.start_ns for span in engine.all(v.BACKEND_OPEN)] or [0]:
        yield (*own, engine.prefix_at(at_ns), engine.suffixes_at(at_ns))


_BETWEEN = 200


def fingerprints(attempts: Iterable[Attempt], release: Callable[[], None], *, salted: bool) -> Fingerprints:
    """Index every request's fingerprint, by the blocks in which a page of some engine can end; RELEASE is called now and then.

    Where all engines name pages alike, and no request is SALTED by a key of its own, nothing can have been written under another key: the
    index stays empty.
    """
    found = Fingerprints()
    every = list(attempts)
    if not salted and len({scheme for engine in {attempt.engine for attempt in every} for scheme in _schemes(engine)}) <= 1:
        return found
    sizes = {attempt.engine.page_size for attempt in every}
    for number, attempt in enumerate(every):
        blocks = range(len(attempt.blocks))
        if all(size % v.FINGERPRINT_BLOCK == 0 for size in sizes):
            step = math.gcd(*sizes) // v.FINGERPRINT_BLOCK
            found.add(attempt, blocks[step - 1 :: step])
        else:
            found.add(attempt, blocks)
        attempt.forget()
        found.forget()
        if number % _BETWEEN == 0:
            release()
    return found
