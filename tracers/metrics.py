"""What each metric takes from which span: rows, and the readers that they name; worked out from what the file holds, never in a call of the engine."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracers import vocabulary as v

MOST_WAITING = 10_000
"""Requests, and copies, that are remembered until the span comes that ends them."""

Parts = Iterable[tuple[float, tuple[str, ...]]]
"""(amount, values of the metric's attributes)."""


@dataclass(slots=True)
class Waiting:
    """A request between its match and its first prefill: tokens matched on device and host, and read from the store."""

    device: int | None = None
    host: int | None = None
    read: int = 0


@dataclass(slots=True)
class Memory:
    """What one process's earlier spans have said, as far as later ones need it; bounded."""

    page_size: int = 1
    waiting: dict[str, Waiting] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    """Tree node -> when its copy to the device began (ns)."""

    def of(self, rid: str) -> Waiting:
        """What is known of a request; the oldest is forgotten where too many wait."""
        found = self.waiting.get(rid)
        if found is None:
            _bound(self.waiting)
            found = self.waiting[rid] = Waiting()
        return found


def _bound(kept: dict[Any, Any]) -> None:
    if len(kept) >= MOST_WAITING:
        del kept[next(iter(kept))]


@dataclass(slots=True)
class Sight:
    """One span, as a reader sees it."""

    told: Mapping[str, Any]
    start_ns: int
    end_ns: int
    rid: str | None
    memory: Memory

    @property
    def seconds(self) -> float:
        """How long the call took."""
        return max(0, self.end_ns - self.start_ns) / 1e9

    @property
    def counts(self) -> bool:
        """Whether it belongs to a request that a user sent, at its first way through the queue."""
        return self.rid is not None and not self.rid.startswith(v.HEALTH_RID_PREFIX) and self.told.get(v.RETRACTED) is not True

    def number(self, key: str) -> int:
        """A number that the span tells, else 0."""
        value = self.told.get(key)
        return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class Row:
    """One metric, the spans that it is taken from, and the reader that takes it."""

    metric: str
    spans: tuple[str, ...]
    read: Callable[[Sight], Parts]
    absolute: bool = False
    """The amount replaces what was there: spans that tell a state, and no change."""


# -- notes: what later spans need ----------------------------------------------------------------------------------------
def note_page(sight: Sight) -> None:
    """The page size of the engine."""
    sight.memory.page_size = sight.number(v.PAGE_SIZE) or sight.memory.page_size


def note_match(sight: Sight) -> None:
    """Where the tokens lay when the request first came; a later look at the same request finds what happened since."""
    if sight.rid is not None and sight.counts and v.MATCHED_DEVICE in sight.told:
        known = sight.memory.of(sight.rid)
        if known.device is None and sight.told[v.MATCHED_DEVICE] is not None:
            known.device, known.host = sight.number(v.MATCHED_DEVICE), sight.number(v.MATCHED_HOST)


def note_read(sight: Sight) -> None:
    """What arrived from the store for the request."""
    if sight.rid is not None and sight.counts:
        known = sight.memory.of(sight.rid)
        known.read = max(known.read, sight.number(v.DONE_TOKENS))


def note_copies(sight: Sight) -> None:
    """When the copies of these nodes began."""
    for node in sight.told.get(v.NODES) or ():
        _bound(sight.memory.copies)
        sight.memory.copies[node] = sight.start_ns


def note_end(sight: Sight) -> None:
    """The request is over."""
    sight.memory.waiting.pop(sight.rid or "", None)


NOTES: dict[str, Callable[[Sight], None]] = {
    v.ENGINE_START: note_page,
    v.ENGINE: note_page,
    v.CONTROLLER_OPEN: note_page,
    v.REQUEST_QUEUED: note_page,
    v.PREFETCH_GATE: note_match,
    v.PREFETCH_TRANSFER: note_read,
    v.PREFETCH_FINISH: note_read,
    v.LOAD_BACK_START: note_copies,
    v.REQUEST_FINISHED: note_end,
}
"""Run after the rows of the same span."""


# -- readers -------------------------------------------------------------------------------------------------------------
def first_prefill(sight: Sight) -> bool:
    """Whether this is the first prefill of a request that a user sent."""
    return sight.counts and sight.told.get(v.FIRST_CHUNK) is not False


def requests(sight: Sight) -> Parts:
    """One for each first prefill."""
    if first_prefill(sight):
        yield 1, ()


def tiers(sight: Sight) -> Parts:
    """The prompt by tier.

    Device and host are what the match found when the request came, storage what was read for it. What else the batch carried was computed
    by another request meanwhile and lay on the device. An engine without storage matches nothing there: then its own split is taken.
    """
    if not first_prefill(sight):
        return
    prefix = sight.number(v.PREFIX_TOKENS)
    known = sight.memory.waiting.get(sight.rid or "")
    if known is None or known.device is None:
        matched, storage = sight.number(v.CLAIM_HOST), sight.number(v.CLAIM_STORAGE)
        device = max(0, prefix - matched - storage)
    else:
        device, matched, storage = known.device, known.host or 0, known.read
    device = min(device, prefix)
    host = min(matched, prefix - device)
    storage = min(storage, prefix - device - host)
    prompt = sight.number(v.PROMPT_TOKENS)
    computed = max(0, prompt - prefix) if prompt else sight.number(v.EXTEND_TOKENS)
    device += prefix - device - host - storage
    yield from ((device, (v.DEVICE_TIER,)), (host, (v.HOST_TIER,)), (storage, (v.STORAGE_TIER,)), (computed, (v.COMPUTED,)))


def pages(key: str, direction: str) -> Callable[[Sight], Parts]:
    """Reader of the pages in a number of tokens."""
    return lambda sight: [(sight.number(key) // sight.memory.page_size, (direction,))]


def moved(direction: str) -> Callable[[Sight], Parts]:
    """Reader of the bytes of a batch."""
    return lambda sight: [(sight.number(v.BYTES), (direction,))]


def objects(operation: str) -> Callable[[Sight], Parts]:
    """Reader of what became of each object of a batch."""

    def read(sight: Sight) -> Parts:
        left = sight.number(v.OBJECTS)
        if v.OBJECTS_OK not in sight.told:  # the call raised, or its detail was left out to stay within bounds
            if sight.told.get(v.OUTCOME) == v.FAILED:
                yield left, (operation, "raised")
            return
        good = sight.number(v.OBJECTS_OK)
        yield good, (operation, "ok")
        left -= good
        for told in sight.told.get(v.OBJECTS_CODES) or ():
            code, _, count = str(told).partition("=")
            if count.isdecimal():
                left -= int(count)
                yield int(count), (operation, "absent" if code == "0" else code)
        if left > 0:
            yield left, (operation, "short")

    return read


def answered(operation: str) -> Callable[[Sight], Parts]:
    """Reader of the code of a call about one thing."""

    def read(sight: Sight) -> Parts:
        code = sight.told.get(v.CODE)
        if sight.told.get(v.OUTCOME) == v.FAILED:
            yield 1, (operation, "raised")
        elif isinstance(code, int):
            yield 1, (operation, "ok" if code == 0 else str(code))

    return read


def took(*attributes: str) -> Callable[[Sight], Parts]:
    """Reader of a call's own time."""
    return lambda sight: [(sight.seconds, attributes)]


def copied(sight: Sight) -> Parts:
    """Time of the copies that are acknowledged, one for each start: nodes that began together are one copy."""
    begun = {sight.memory.copies.pop(node, None) for node in sight.told.get(v.NODES) or ()}
    return [(max(0, sight.end_ns - start) / 1e9, ()) for start in sorted(start for start in begun if start is not None)]


def told(key: str, *attributes: str) -> Callable[[Sight], Parts]:
    """Reader of one number, where the span has it."""
    return lambda sight: [(sight.number(key), attributes)] if isinstance(sight.told.get(key), int) else []


def reason(step: str) -> Callable[[Sight], Parts]:
    """Reader of why a step was cut short."""
    return lambda sight: [(1, (step, sight.told[v.REASON]))] if isinstance(sight.told.get(v.REASON), str) else []


_OF_BATCHES = (("exist", v.STORE_EXIST), ("put", v.STORE_PUT), ("get", v.STORE_GET))
_OF_ONE = (("setup", v.STORE_SETUP), ("register_buffer", v.BUFFER_REGISTER))
_REASONED = (
    v.BUFFER_POOL, v.WRITE_BACKUP, v.WRITE_ENQUEUE, v.WRITE_STORE, v.REQUEST_QUEUED, v.PREFETCH_GATE, v.PREFETCH_LOOKUP, v.PREFETCH_FINISH,
    v.PREFETCH_PUBLISH, v.PREFETCH_AGREE, v.PREFETCH_SETTLE, v.PREFETCH_REVOKE, v.PREFETCH_ABORT, v.LOAD_BACK, v.ADMISSION, v.EVICT_DEVICE, v.RESET,
)  # fmt: skip
"""Spans that may name a reason; those left out repeat it: the enqueue inside a gate, and the question around a load-back."""

ROWS: tuple[Row, ...] = (
    Row(v.M_REQUESTS, (v.PREFILL,), requests),
    Row(v.M_TOKENS, (v.PREFILL,), tiers),
    Row(v.M_PAGES, (v.WRITE_STORE,), pages(v.WRITTEN_TOKENS, v.WRITE)),
    Row(v.M_PAGES, (v.PREFETCH_TRANSFER,), pages(v.DONE_TOKENS, v.READ)),
    Row(v.M_BYTES, (v.STORE_PUT,), moved(v.WRITE)),
    Row(v.M_BYTES, (v.STORE_GET,), moved(v.READ)),
    *(Row(v.M_OBJECTS, (span,), objects(operation)) for operation, span in _OF_BATCHES),
    *(Row(v.M_OBJECTS, (span,), answered(operation)) for operation, span in _OF_ONE),
    *(Row(v.M_CALLS, (span,), took(operation)) for operation, span in (*_OF_BATCHES, *_OF_ONE)),
    Row(v.M_LOOKUP, (v.PREFETCH_LOOKUP,), took()),
    Row(v.M_TRANSFER, (v.PREFETCH_TRANSFER,), took()),
    Row(v.M_LOAD_BACK, (v.LOAD_BACK_DONE,), copied),
    Row(v.M_WRITE, (v.WRITE_STORE,), took()),
    Row(v.M_OCCUPIED, (v.PREFETCH_ENQUEUE,), told(v.OCCUPIED), absolute=True),
    Row(v.M_LIMIT, (v.PREFETCH_ENQUEUE, v.BACKEND_ATTACH), told(v.CAPACITY_LIMIT), absolute=True),
    *(Row(v.M_SKIPS, (span,), reason(span)) for span in _REASONED),
    Row(v.M_EVICTED, (v.EVICT_DEVICE,), told(v.EVICT_FREED, v.DEVICE_TIER)),
    Row(v.M_EVICTED, (v.EVICT_HOST,), told(v.EVICT_FREED, v.HOST_TIER)),
    Row(v.M_UNBACKED, (v.EVICT_DEVICE,), told(v.EVICT_LOST)),
    Row(v.M_SPANS, (v.LEDGER,), told(v.WRITTEN, "written"), absolute=True),
    Row(v.M_SPANS, (v.LEDGER,), told(v.DROPPED, "dropped"), absolute=True),
    Row(v.M_SPANS, (v.LEDGER,), told(v.EXPORT_DROPPED, "unsent"), absolute=True),
    Row(v.M_FAULTS, (v.LEDGER,), told(v.POINTS_FAULTS), absolute=True),
)  # fmt: skip

_BATCHES = tuple(operation for operation, _ in _OF_BATCHES)
ZEROES: tuple[tuple[str, tuple[str, ...]], ...] = (
    *((metric, ()) for metric in (v.M_REQUESTS, v.M_LOOKUP, v.M_TRANSFER, v.M_LOAD_BACK, v.M_WRITE, v.M_UNBACKED)),
    *((v.M_TOKENS, (tier,)) for tier in (v.DEVICE_TIER, v.HOST_TIER, v.STORAGE_TIER, v.COMPUTED)),
    *((v.M_EVICTED, (tier,)) for tier in (v.DEVICE_TIER, v.HOST_TIER)),
    *((metric, (direction,)) for metric in (v.M_PAGES, v.M_BYTES) for direction in (v.WRITE, v.READ)),
    *((v.M_CALLS, (operation,)) for operation in _BATCHES),
    *((v.M_OBJECTS, (operation, "ok")) for operation in _BATCHES),
)
"""Series that are there from the start, at 0: what first appears with its first event has no rate of it."""
