"""Which pages are known to be in the store, since when, and who wrote them."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from hicachectl.model.objects import batch
from hicachectl.model.take import failed, keys, text
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
    object_bytes: int | None


_TIME = attrgetter("time_ns")


class Pages:
    """Every write of a recording by what stands before the page key, and by page key."""

    def __init__(self) -> None:
        # Millions of pages, nearly all of them written once: a list for each, and the digits of their keys, would be most of the memory.
        self._writes: dict[str, dict[Hashable, Write | list[Write]]] = defaultdict(dict)
        self.clears: list[int] = []
        """When the store was emptied on purpose: what was written before is not known to be there."""
        self._backups: list[Span] = []
        self._copies: dict[tuple[str, Hashable], int] | None = None

    def copied(self, engine: str, page_key: str, since_ns: int) -> bool:
        """Whether an engine was about to copy a page to the host, or refused to, at or after a time."""
        if self._copies is None:
            self._copies = {(span.engine, _short(key)): span.start_ns for span in self._backups for key in keys(span)}
        return self._copies.get((engine, _short(page_key)), -1) >= since_ns

    def of(self, prefix: str, page_key: str) -> Sequence[Write]:
        """Every write of a page, in time order."""
        found = self._writes.get(prefix, {}).get(_short(page_key), ())
        return (found,) if isinstance(found, Write) else found

    def all(self) -> Iterator[tuple[tuple[str, Hashable], Sequence[Write]]]:
        """What names each page, and its writes."""
        for prefix, written in self._writes.items():
            for key, found in written.items():
                yield (prefix, key), (found,) if isinstance(found, Write) else found

    def add(self, prefix: str, page_key: str, write: Write) -> None:
        """Note a write; `sort` has to follow before anything is asked."""
        written, key = self._writes[prefix], _short(page_key)
        before = written.setdefault(key, write)
        if isinstance(before, list):
            before.append(write)
        elif before is not write:
            written[key] = [before, write]

    def backed(self, span: Span) -> None:
        """Note a copy to the host; its pages are looked at when somebody asks."""
        self._backups.append(span)

    def sort(self) -> None:
        """Put everything into time order."""
        self.clears.sort()
        for written in self._writes.values():
            for found in written.values():
                if isinstance(found, list):
                    found.sort(key=_TIME)

    def before(self, prefix: str, page_key: str, time_ns: int) -> list[Write]:
        """Writes of a page up to a time, since the store was last emptied."""
        since = self.clears[bisect_right(self.clears, time_ns) - 1] if self.clears and self.clears[0] <= time_ns else 0
        found = self.of(prefix, page_key)
        if not found:
            return []
        end = bisect_right(found, time_ns, key=_TIME)
        return list(found[bisect_left(found, since, 0, end, key=_TIME) : end])

    def known(self, prefix: str, page_key: str, suffixes: Iterable[str], time_ns: int) -> list[Write]:
        """The writes that together left every object of a page in the store by a time; empty where one is missing."""
        found = self.before(prefix, page_key, time_ns)
        there: set[str] = set()
        for write in found:
            there |= write.suffixes
        wanted = set(suffixes)
        return found if found and wanted and wanted <= there else []

    def after(self, prefix: str, page_key: str, suffixes: Iterable[str], time_ns: int) -> list[Write]:
        """The writes from a time on that together cover every object of a page; empty where one is missing."""
        written = self.of(prefix, page_key)
        found = list(written[bisect_left(written, time_ns, key=_TIME) :])
        there: set[str] = set()
        for write in found:
            there |= write.suffixes
        wanted = set(suffixes)
        return found if wanted and wanted <= there else []


def pages(recording: Recording) -> Pages:
    """Read every put, and every existence answer that made a put unnecessary."""
    found = Pages()
    stores = {span.span_id for span in recording.spans if span.name == v.WRITE_STORE}
    for span in recording.walk():
        if span.name == v.STORE_PUT:
            _add(found, span, moved=True)
        elif span.name == v.STORE_EXIST and span.parent_id in stores:
            _add(found, span, moved=False)
        elif span.name == v.WRITE_BACKUP:
            found.backed(span)
        elif span.name == v.STORAGE_CLEAR and not failed(span):
            found.clears.append(span.end_ns)
        if recording.mapped:
            span.forget()
    found.sort()
    return found


def _short(page_key: str) -> Hashable:
    """The first half of a page key, a digest, in a third of the memory of its digits."""
    try:
        return int(page_key[:32], 16)
    except ValueError:
        return page_key


def _add(found: Pages, span: Span, *, moved: bool) -> None:
    call = batch(span)
    rid = text(span, v.RID)
    # Pages of a call that fared alike share one entry.
    alike: dict[tuple[str, ...], Write] = {}
    for page in call.pages:
        if page.good:
            write = alike.get(page.good)
            if write is None:
                write = alike[page.good] = Write(span.end_ns, span.engine, rid, span.span_id, frozenset(page.good), moved, call.object_bytes)
            found.add(call.prefix, page.page_key, write)
