"""The token account of a request: reused by tier, computed, and which computed pages the store had."""

from collections import defaultdict
from dataclasses import dataclass, field

from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import Engine
from hicachectl.model.fingerprints import Twin
from hicachectl.model.journey import Journey
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
    _tiers(journey, world, found, prefix)
    _losses(journey, world, found, prefix)
    return found


def _tiers(journey: Journey, world: World, found: Account, prefix: int) -> None:
    """A token is reused from the tier where its KV lay when the request first entered the queue."""
    found.device = min(prefix, journey.matched_device or 0)
    found.host = min(prefix - found.device, journey.matched_host or 0)
    page = journey.page
    writers: dict[tuple[str, str | None], int] = defaultdict(int)
    for index in range((found.device + found.host) // page, prefix // page):
        if in_store(journey, world, index):
            found.storage += page
            writers[_writer(journey, world, index)] += page
        else:
            # Nowhere when the request came: another request has computed it since, so it lay on the device.
            found.device += page
    found.device += prefix - found.device - found.host - found.storage
    found.writers = [(engine, rid, tokens) for (engine, rid), tokens in writers.items() if engine]


def _writer(journey: Journey, world: World, index: int) -> tuple[str, str | None]:
    keys = journey.attempt.page_keys
    if index >= len(keys):
        return "", None
    # Every rank writes objects of its own: the writer of this rank's stands for the others.
    own = {*journey.attempt.key_suffixes}
    writes = [write for write in world.pages.before(journey.attempt.key_prefix, keys[index], journey.attempt.start_ns) if write.moved and own & write.suffixes]
    return (writes[0].engine, writes[0].rid) if writes else ("", None)


def _losses(journey: Journey, world: World, found: Account, prefix: int) -> None:
    for index in range(prefix // journey.page, journey.reusable_pages):
        if in_store(journey, world, index):
            found.lost_pages.append(index)
        else:
            end = (index + 1) * journey.page
            twin = next(world.prints.twins(journey.attempt, end, world.pages, journey.attempt.start_ns), None)
            if twin is not None:
                found.mismatched[index] = twin


def in_store(journey: Journey, world: World, index: int) -> bool:
    """Whether a page of the prompt was in the store, or is known to have been written, when the request entered the queue."""
    first = journey.looked_from // journey.page
    hit = journey.hit
    if hit is not None and first <= index < first + hit // journey.page:
        return True
    keys = journey.attempt.page_keys
    if index >= len(keys):
        return False
    # A page is there when every rank has its own objects of it.
    return all(_has(rank, keys[index], world) for rank in journey.ranks)


def _has(rank: Attempt, key: str, world: World) -> bool:
    if key in rank.present:
        return True
    writes = world.pages.known(rank.key_prefix, key, rank.key_suffixes, rank.start_ns)
    return bool(writes) and all(_alike(rank.engine, world.engines.get(write.engine)) for write in writes)


def _alike(own: Engine, other: Engine | None) -> bool:
    """Whether objects of the same name are the same: of one tenant, with the same heads; all ranks of a replicated KV have the same ones."""
    return other is None or (own.tenant == other.tenant and (own.tp_size == other.tp_size or bool(own.setting(v.REPLICATED))))
