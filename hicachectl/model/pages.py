"""Which pages are known to be in the store, since when, and who wrote them."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from operator import attrgetter, is_
from typing import TypeVar

from hicachectl.model.names import page_name, page_names
from hicachectl.model.objects import batch
from hicachectl.model.take import failed, text
from hicachectl.store import Recording, Span
from tracers import vocabulary as v


@dataclass(frozen=True, slots=True)
class Write:
    """Objects of one page that one call left in the store, or found there when it was about to write them."""

    time_ns: int
    engine: str
    rid: str | None
    span_id: str
    suffixes: frozenset[str]
    moved: bool
    """False where the objects were there already."""
    began_ns: int
    """When the engine began the backup that the call belongs to; it looks first whether the objects are there."""
    object_bytes: int | None


_TIME = attrgetter("time_ns")
Kind = TypeVar("Kind")


def alike(values: Sequence[Kind]) -> Iterator[tuple[int, Kind]]:
    """How many of VALUES that follow each other are one and the same, and it."""
    # Nearly always all are: what is asked of the pages of a prompt was written by one call, or by none.
    if values and all(map(is_, values, repeat(values[0]))):
        yield len(values), values[0]
        return
    for _, run in groupby(values, id):
        same = list(run)
        yield len(same), same[0]


class Pages:
    """Every write of a recording by what stands before the page key, and by page key."""

    def __init__(self) -> None:
        # Millions of pages, nearly all of them written once: a list for each, and the digits of their keys, would be most of the memory.
        self._writes: dict[str, dict[Hashable, Write | list[Write]]] = defaultdict(dict)
        self.clears: list[int] = []
        """When the store was emptied on purpose: what was written before is not known to be there."""
        self._backups: list[Span] = []
        self._copies: dict[tuple[str, Hashable], int] | None = None
        self._asked: tuple[str, Sequence[Hashable], list[Write | list[Write] | None]] = ("", (), [])

    def copied(self, engine: str, page_key: str, since_ns: int) -> bool:
        """Whether an engine was about to copy a page to the host, or refused to, at or after a time."""
        if self._copies is None:
            self._copies = {(span.engine, name): span.start_ns for span in self._backups for name in page_names(text(span, v.PAGE_KEYS) or "")}
        return self._copies.get((engine, page_name(page_key)), -1) >= since_ns

    def of(self, prefix: str, page_key: str) -> Sequence[Write]:
        """Every write of a page, in time order."""
        return _every(self._writes.get(prefix, {}).get(page_name(page_key)))

    def runs(self, prefix: str, names: Sequence[Hashable], first: int = 0, last: int | None = None) -> Iterator[tuple[int, Sequence[Write]]]:
        """Every write of pages that follow each other, NAMES from FIRST to LAST: how many have the same ones, and these in time order."""
        # A request's pages are asked for once in each of a few places.
        if self._asked[1] is not names or self._asked[0] != prefix:
            self._asked = prefix, names, list(map(self._writes.get(prefix, {}).get, names))
        for length, found in alike(self._asked[2][first:last]):
            yield length, _every(found)

    def all(self) -> Iterator[tuple[tuple[str, Hashable], Sequence[Write]]]:
        """What names each page, and its writes."""
        for prefix, written in self._writes.items():
            for key, found in written.items():
                yield (prefix, key), _every(found)

    def add(self, prefix: str, names: Sequence[Hashable], write: Write) -> None:
        """Note a write of pages; `sort` has to follow before anything is asked."""
        written = self._writes[prefix]
        if written.keys().isdisjoint(names):
            written.update(dict.fromkeys(names, write))
            return
        for name in names:
            before = written.setdefault(name, write)
            if isinstance(before, list):
                before.append(write)
            elif before is not write:
                written[name] = [before, write]

    def backed(self, span: Span) -> None:
        """Note a copy to the host; its pages are looked at when somebody asks."""
        self._backups.append(span)

    def sort(self) -> None:
        """Put everything into time order; pages with the same writes share a list of them."""
        self.clears.sort()
        self._asked = ("", (), [])
        shared: dict[tuple[int, ...], list[Write]] = {}
        for written in self._writes.values():
            for name, found in written.items():
                if isinstance(found, list):
                    found.sort(key=_TIME)
                    written[name] = shared.setdefault(tuple(map(id, found)), found)

    def before(self, writes: Sequence[Write], time_ns: int) -> Sequence[Write]:
        """Those of WRITES up to a time, since the store was last emptied."""
        since = self.clears[bisect_right(self.clears, time_ns) - 1] if self.clears and self.clears[0] <= time_ns else 0
        end = bisect_right(writes, time_ns, key=_TIME)
        return writes[bisect_left(writes, since, 0, end, key=_TIME) : end]

    def known(self, writes: Sequence[Write], suffixes: Iterable[str], time_ns: int) -> Sequence[Write]:
        """Those of WRITES, of one page, that together left every object of it in the store by a time; empty where one is missing."""
        return _covering(self.before(writes, time_ns), suffixes)


def after(writes: Sequence[Write], suffixes: Iterable[str], time_ns: int) -> Sequence[Write]:
    """Those of WRITES, of one page, from a time on that together cover every object of it; empty where one is missing."""
    return _covering(writes[bisect_left(writes, time_ns, key=_TIME) :], suffixes)


def last_writer(writes: Iterable[Write]) -> Write | None:
    """Of WRITES of one page, in time order, the one whose bytes are there after them all; None where none moved any.

    A backup that began after another had written, and wrote all the same, has found the objects gone. One that began before may have come
    too late: the store keeps what is there (`OBJECT_ALREADY_EXISTS`, which the client counts as success).
    """
    found = None
    for each in writes:
        if each.moved and (found is None or each.began_ns >= found.time_ns):
            found = each
    return found


def _covering(writes: Sequence[Write], suffixes: Iterable[str]) -> Sequence[Write]:
    wanted = set(suffixes)
    return writes if writes and wanted and wanted.issubset(chain.from_iterable(write.suffixes for write in writes)) else ()


def _every(found: Write | list[Write] | None) -> Sequence[Write]:
    if found is None:
        return ()
    return (found,) if isinstance(found, Write) else found


_TELLING = frozenset({v.STORE_PUT, v.STORE_EXIST, v.WRITE_BACKUP, v.STORAGE_CLEAR})


def pages(recording: Recording) -> Pages:
    """Read every put, and every existence answer that made a put unnecessary."""
    found = Pages()
    stores = {span.span_id: span.start_ns for span in recording.spans if span.name == v.WRITE_STORE}
    for span in recording.walk():
        if span.name not in _TELLING:
            continue
        if span.name == v.STORE_PUT:
            _add(found, span, stores.get(span.parent_id or "", span.start_ns), moved=True)
        elif span.name == v.STORE_EXIST:
            if span.parent_id in stores:
                _add(found, span, stores[span.parent_id], moved=False)
        elif span.name == v.WRITE_BACKUP:
            found.backed(span)
        elif not failed(span):
            found.clears.append(span.end_ns)
        if recording.mapped:
            span.forget()
    found.sort()
    return found


def _add(found: Pages, span: Span, began_ns: int, *, moved: bool) -> None:
    call = batch(span)
    rid, object_bytes = text(span, v.RID), call.object_bytes
    # Pages of a call that fared alike share one entry.
    for good, names in call.good_runs:
        found.add(call.prefix, names, Write(span.end_ns, span.engine, rid, span.span_id, frozenset(good), moved, began_ns, object_bytes))
