"""Which objects of a prompt are there, what the engine's look-up would make of them, and what it would do next.

Sources: `batch_exists` and `batch_exists_v2` in mooncake_store.py for the hit; `prefetch_from_storage` of the trees and
`prefetch_thread_func` in cache_controller.py for the two thresholds; `_compute_max_prefix_len` in schedule_batch.py for the
last token; hiradix_cache.py and unified_radix_cache.py for the deadline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hicachectl.keys.objects import Layout, Slot, layout
from hicachectl.keys.page import units
from hicachectl.keys.pools import Policy
from hicachectl.keys.shape import Shape
from hicachectl.release import Release

PRESENT = 1
DEFAULT_THRESHOLD = 256
POLICIES: Mapping[str, str] = {
    "best_effort": "takes those that have come by the time the request is first looked at",
    "timeout": "waits for them at most {deadline:.2g} s",
    "wait_complete": "waits until all have come",
}
"""What `--hicache-storage-prefetch-policy` means for a fetch that has begun."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The object that cuts the hit: its page, its place among the page's objects, and the store's answer (0, or a negative code)."""

    page: int
    slot: Slot
    key: str
    answer: int


@dataclass(frozen=True)
class Presence:
    """The store's answer for every object of a prompt's full pages.

    `answers[page][slot]` is 1 where the object is there, 0 where it is not, and a negative code where the store did not say,
    which the engine takes as a miss. `windows` tells how many pages a look-up wants of a pool of which only the end of a
    prefix is kept (1 where a pool is not named).
    """

    shape: Shape
    page_keys: Sequence[str]
    answers: Sequence[Sequence[int]]
    windows: Mapping[str, int] = field(default_factory=dict)
    recorded_layout: Layout | None = None
    """The objects of a page where a recording tells them; otherwise the shape does."""

    @cached_property
    def layout(self) -> Layout:
        """The objects of a page."""
        return self.recorded_layout or layout(self.shape)

    def complete(self, page: int) -> bool:
        """Whether a page has all objects that every page must have."""
        return all(self.answers[page][index] == PRESENT for index in self._everywhere)

    @cached_property
    def contiguous_pages(self) -> int:
        """Pages that a look-up for all of them would find from the first one on, agreed over all ranks and stages."""
        return self.hit(len(self.page_keys))

    @cached_property
    def unreachable_pages(self) -> int:
        """Complete pages behind the cut: there, but no look-up from the first page gets to them."""
        return sum(self.complete(page) for page in range(self.contiguous_pages, len(self.page_keys)))

    @cached_property
    def gap(self) -> Gap | None:
        """The first object that cuts the hit; None where nothing does."""
        count = self.contiguous_pages
        if count == len(self.page_keys):
            return None
        full_run = next((page for page in range(len(self.page_keys)) if not self.complete(page)), len(self.page_keys))
        if full_run == count:
            return self._first_missing(count, self._everywhere)
        # Every page up to there is complete: what is missing is the state at its end that a trailing pool keeps.
        for page in range(full_run - 1, -1, -1):
            found = self._first_missing(page, self._trailing)
            if found is not None:
                return found
        return None

    def hit(self, asked: int) -> int:
        """Pages that a look-up for the first ASKED pages finds, as this SGLang release counts them."""
        if not asked:
            return 0
        found = [self._restorable(rank, asked) for rank in self.layout.ranks]
        if self.shape.scheme.intersects_restorable:
            return max(frozenset.intersection(*found), default=0)
        return min(max(rank, default=0) for rank in found)

    def _restorable(self, rank: tuple[int, ...], asked: int) -> frozenset[int]:
        """Lengths of prefixes that one rank could restore; only the longest where the release cuts at each pool's longest."""
        slots = self.layout.slots
        own = [index for index in rank if not slots[index].pool]
        limit = self._run(own, asked)
        lengths = frozenset(range(1, limit + 1))
        pools = dict.fromkeys(slots[index].pool for index in rank if slots[index].pool)
        for pool in pools:
            places = [index for index in rank if slots[index].pool == pool]
            possible = self._pool_lengths(pool, places, limit)
            if self.shape.scheme.intersects_restorable:
                lengths &= possible
            else:
                lengths = frozenset(range(1, min(max(lengths, default=0), max(possible, default=0)) + 1))
        return lengths

    def _pool_lengths(self, pool: str, places: list[int], limit: int) -> frozenset[int]:
        if self.layout.slots[places[0]].policy is Policy.all_pages:
            return frozenset(range(1, self._run(places, limit) + 1))
        window = self.windows.get(pool, 1)
        held = [self._all_there(page, places) for page in range(limit)]
        return frozenset(length for length in range(1, limit + 1) if all(held[max(0, length - window) : length]))

    def _run(self, places: Sequence[int], limit: int) -> int:
        """Pages from the first one on that have all of PLACES, at most LIMIT."""
        return next((page for page in range(limit) if not self._all_there(page, places)), limit)

    def _all_there(self, page: int, places: Sequence[int]) -> bool:
        row = self.answers[page]
        return all(row[index] == PRESENT for index in places)

    def _first_missing(self, page: int, places: Sequence[int]) -> Gap | None:
        for index in places:
            answer = self.answers[page][index]
            if answer != PRESENT:
                slot = self.layout.slots[index]
                return Gap(page, slot, f"{self.layout.prefix}{self.page_keys[page]}{slot.suffix}", answer)
        return None

    @cached_property
    def _everywhere(self) -> list[int]:
        return [index for index, slot in enumerate(self.layout.slots) if slot.policy is Policy.all_pages]

    @cached_property
    def _trailing(self) -> list[int]:
        return [index for index, slot in enumerate(self.layout.slots) if slot.policy is Policy.trailing_pages]


@dataclass(frozen=True, slots=True)
class Would:
    """What an engine whose own tiers are empty would do: fetch or not, how many tokens, and the finding that tells why not all."""

    prefetch: bool
    tokens: int
    code: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long the policy `timeout` waits: seconds, seconds for 1024 tokens, and the most it waits (None: no such bound)."""

    since: str
    base: float
    per_ki_token: float
    longest: float | None

    def seconds(self, tokens: int) -> float:
        """The deadline of a fetch of TOKENS."""
        asked = self.base + self.per_ki_token * tokens / 1024
        return asked if self.longest is None else min(asked, self.longest)


DEADLINES: tuple[Deadline, ...] = (Deadline("0.5.14", 2.0, 0.1, 30.0), Deadline("0.5.21", 1.0, 0.25, None))
"""The defaults of the tree that a model without side pools gets."""


def engine_would(presence: Presence, tokens: int, threshold: int = DEFAULT_THRESHOLD, policy: str = "timeout") -> Would:
    """What an engine of this shape would do with a prompt of TOKENS tokens, nothing of it in device or host memory.

    The last token is never looked up. A look-up is made for full pages of at least THRESHOLD tokens, and its hit is fetched
    from max(THRESHOLD, page size) tokens on.
    """
    shape = presence.shape
    asked = units(max(0, tokens - 1), bigram=shape.bigram) // shape.page_size
    asked_tokens = asked * shape.page_size
    if not asked or asked_tokens < threshold:
        why = f"no look-up: {asked_tokens} tokens in full pages before the last token, the threshold is {threshold}"
        return Would(prefetch=False, tokens=0, code="HC-R04", why=why)
    hit = presence.hit(asked)
    hit_tokens, least = hit * shape.page_size, max(threshold, shape.page_size)
    gap = presence.gap
    failed = gap is not None and gap.answer < 0 and hit <= gap.page < asked
    found = f"the look-up for {asked} pages finds {hit}, that is {hit_tokens} tokens"
    if hit_tokens < least:
        why = f"{found}, below the threshold of {least}: nothing is fetched"
        return Would(prefetch=False, tokens=0, code="HC-R101" if failed else "HC-R12", why=why)
    code = None
    if hit < asked:
        behind = any(presence.complete(page) for page in range(hit, asked))
        code = "HC-R101" if failed else "HC-R13" if behind else None
    rest = f"; the engine {POLICIES[policy].format(deadline=_deadline(shape.sglang).seconds(hit_tokens))} (policy {policy})"
    return Would(
        prefetch=True,
        tokens=hit_tokens,
        code=code,
        why=f"{found}, at or above the threshold of {least}{rest}",
    )


def _deadline(sglang: str) -> Deadline:
    return [row for row in DEADLINES if Release.of(row.since) <= Release.of(sglang)][-1]
