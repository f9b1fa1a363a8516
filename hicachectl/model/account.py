"""The token account of a request: reused by tier, computed, and which computed pages the store had."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import Engine
from hicachectl.model.fingerprints import Twin
from hicachectl.model.journey import Journey
from hicachectl.model.pages import last_writer
from hicachectl.model.take import count
from hicachectl.model.world import World
from tracers import vocabulary as v


@dataclass(slots=True)
class Account:
    """Tokens of one request, from its first prefill; `lost_pages` still wait for their code."""

    prompt: int = 0
    device: int = 0
    host: int = 0
    storage: int = 0
    computed: int = 0
    tail: int = 0
    claims: dict[str, int] = field(default_factory=lambda: {"device": 0, "host": 0, "storage": 0})
    lost_pages: list[int] = field(default_factory=list)
    """Pages that the store had under this engine's own keys and that were computed all the same."""
    mismatched: dict[int, Twin] = field(default_factory=dict)
    """Pages that were written under another key."""
    writers: list[tuple[str, str | None, int]] = field(default_factory=list)
    """(engine, request, tokens) that wrote what was reused from storage."""

    @property
    def reused(self) -> int:
        """Tokens that the first prefill batch carried as prefix."""
        return self.device + self.host + self.storage


def account(journey: Journey, world: World) -> Account:
    """Split the prompt; tokens of a request that never reached a prefill are neither reused nor computed."""
    prefill, prefix = journey.attempt.first_prefill, journey.prefix
    found = Account(prompt=journey.prompt)
    if prefill is None or prefix is None:
        return found
    prefix = min(prefix, found.prompt)
    found.computed = found.prompt - prefix
    found.tail = min(found.computed, found.prompt - journey.reusable_pages * journey.page)
    found.claims = {"device": count(prefill, v.CLAIM_DEVICE), "host": count(prefill, v.CLAIM_HOST), "storage": count(prefill, v.CLAIM_STORAGE)}
    first = prefix // journey.page
    stored = in_store(journey, world, max(first, journey.reusable_pages))
    _tiers(journey, world, found, prefix, stored)
    _losses(journey, world, found, first, stored)
    return found


def _tiers(journey: Journey, world: World, found: Account, prefix: int, stored: list[bool]) -> None:
    """A token is reused from the tier where its KV lay when the request first entered the queue."""
    device = min(prefix, journey.matched_device or 0)
    found.host = min(prefix - device, journey.matched_host or 0)
    first, last = (device + found.host) // journey.page, prefix // journey.page
    found.storage = sum(stored[first:last]) * journey.page
    # What lay nowhere when the request came has been computed by another request since, so it lay on the device.
    found.device = prefix - found.host - found.storage
    found.writers = list(_writers(journey, world, first, stored[first:last]))


def _writers(journey: Journey, world: World, first: int, stored: list[bool]) -> Iterator[tuple[str, str | None, int]]:
    """Who wrote the pages from FIRST on of those that were STORED."""
    attempt, tokens = journey.attempt, dict[tuple[str, str | None], int]()
    # Every rank writes objects of its own: the writer of this rank's stands for the others.
    own = {*attempt.key_suffixes}
    place = 0
    for length, writes in world.pages.runs(attempt.key_prefix, attempt.page_names, first, first + len(stored)):
        there = sum(stored[place : place + length])
        place += length
        write = last_writer([each for each in world.pages.before(writes, attempt.start_ns) if own & each.suffixes]) if there else None
        if write is not None:
            tokens[write.engine, write.rid] = tokens.get((write.engine, write.rid), 0) + there * journey.page
    return ((engine, rid, count) for (engine, rid), count in tokens.items() if engine)


def _losses(journey: Journey, world: World, found: Account, first: int, stored: list[bool]) -> None:
    """Pages from FIRST on that were STORED, or written under another key."""
    attempt, shared = journey.attempt, world.prints.shared(journey.attempt)
    for index in range(first, journey.reusable_pages):
        if stored[index]:
            found.lost_pages.append(index)
        elif shared:
            twin = next(world.prints.twins(attempt, (index + 1) * journey.page, world.pages, attempt.start_ns), None)
            if twin is not None:
                found.mismatched[index] = twin


def in_store(journey: Journey, world: World, count: int) -> list[bool]:
    """For each of the first COUNT pages of the prompt whether it was in the store, or is known to have been written, when the request entered the queue."""
    # A page is there when every rank has its own objects of it.
    by_rank = [_had(rank, journey.attempt, world)[:count] for rank in journey.ranks]
    found = by_rank[0] if len(by_rank) == 1 else list(map(all, zip(*by_rank, strict=True)))
    found += [False] * (count - len(found))
    first, hit = journey.looked_from // journey.page, (journey.hit or 0) // journey.page
    found[first : first + hit] = [True] * len(found[first : first + hit])
    return found


def _had(rank: Attempt, asked: Attempt, world: World) -> list[bool]:
    """For each full page of the prompt that was ASKED whether this rank's objects of it were there."""
    found: list[bool] = []
    for length, writes in world.pages.runs(rank.key_prefix, asked.page_names):
        known = world.pages.known(writes, rank.key_suffixes, rank.start_ns)
        found += [bool(known) and all(_alike(rank.engine, world.engines.get(write.engine)) for write in known)] * length
    return [there or name in rank.present for there, name in zip(found, asked.page_names, strict=True)] if rank.present else found


def _alike(own: Engine, other: Engine | None) -> bool:
    """Whether objects of the same name are the same: of one tenant, with the same heads; all ranks of a replicated KV have the same ones."""
    return other is None or (own.tenant == other.tenant and (own.tp_size == other.tp_size or bool(own.setting(v.REPLICATED))))
