"""Who was asked the same prompt under other keys: prefix fingerprints of requests whose pages were written."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hicachectl.model.attempt import Attempt
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


@dataclass(slots=True)
class Fingerprints:
    """Digest of a block -> requests that have it, with its place."""

    blocks: dict[str, list[tuple[Attempt, int]]] = field(default_factory=lambda: defaultdict(list))

    def twins(self, own: Attempt, end_token: int, pages: Pages, time_ns: int) -> Iterator[Twin]:
        """Requests that share the first END_TOKEN tokens, by a block that covers them all, and wrote them under another key by a time."""
        block = -(-end_token // v.FINGERPRINT_BLOCK) - 1
        digests = own.fingerprint
        if not 0 <= block < len(digests):
            return
        for other, _ in self.blocks.get(digests[block], ()):
            found = _written(other, end_token, pages, time_ns)
            if other is not own and found is not None and _differs(own, found):
                yield found


def _written(other: Attempt, end_token: int, pages: Pages, time_ns: int) -> Twin | None:
    engine = other.engine
    index = -(-end_token // engine.page_size) - 1
    keys = other.page_keys
    # The other engine's pages may end a little before the token: its last full page inside the prefix counts.
    index = min(index, end_token // engine.page_size - 1) if index >= len(keys) else index
    if not 0 <= index < len(keys):
        return None
    writes = pages.known(other.key_prefix, keys[index], other.key_suffixes, time_ns)
    if not writes:
        return None
    return Twin(other, end_token // v.FINGERPRINT_BLOCK * v.FINGERPRINT_BLOCK, keys[index], other.key_prefix, tuple(writes))


def _differs(own: Attempt, twin: Twin) -> bool:
    mine, theirs = own.engine, twin.attempt.engine
    return (
        mine.page_size != theirs.page_size
        or mine.tp_size != theirs.tp_size
        or mine.number(v.PP_SIZE) != theirs.number(v.PP_SIZE)
        or own.key_prefix != twin.attempt.key_prefix
        or own.key_suffixes != twin.attempt.key_suffixes
        or twin.page_key not in own.page_keys
    )


def fingerprints(attempts: Iterable[Attempt]) -> Fingerprints:
    """Index every request's fingerprint."""
    found = Fingerprints()
    for attempt in attempts:
        for place, digest in enumerate(attempt.fingerprint):
            found.blocks[digest].append((attempt, place))
    return found
