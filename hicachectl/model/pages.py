"""Which pages are known to be in the store, since when, and who wrote them."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Pages:
    """Every write of a recording by object scheme and page key."""

    writes: dict[tuple[str, str], list[Write]] = field(default_factory=lambda: defaultdict(list))
    clears: list[int] = field(default_factory=list)
    """When the store was emptied on purpose: what was written before is not known to be there."""
    copies: dict[tuple[str, str], int] = field(default_factory=dict)
    """Engine and page key -> when its copy to the host was last begun or refused."""

    def copied(self, engine: str, page_key: str, since_ns: int) -> bool:
        """Whether an engine was about to copy a page to the host at or after a time."""
        return self.copies.get((engine, page_key), -1) >= since_ns

    def before(self, prefix: str, page_key: str, time_ns: int) -> list[Write]:
        """Writes of a page up to a time, since the store was last emptied."""
        since = self.clears[bisect_right(self.clears, time_ns) - 1] if self.clears and self.clears[0] <= time_ns else 0
        found = self.writes.get((prefix, page_key))
        if found is None:
            return []
        end = bisect_right(found, time_ns, key=_TIME)
        return found[bisect_left(found, since, 0, end, key=_TIME) : end]

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
        written = self.writes.get((prefix, page_key), [])
        found = written[bisect_left(written, time_ns, key=_TIME) :]
        there: set[str] = set()
        for write in found:
            there |= write.suffixes
        wanted = set(suffixes)
        return found if wanted and wanted <= there else []


def pages(recording: Recording) -> Pages:
    """Read every put, and every existence answer that made a put unnecessary."""
    found = Pages()
    stores = {span.span_id for span in recording.spans if span.name == v.WRITE_STORE}
    for span in recording.spans:
        if span.name == v.STORE_PUT:
            _add(found, span, moved=True)
        elif span.name == v.STORE_EXIST and span.parent_id in stores:
            _add(found, span, moved=False)
        elif span.name == v.WRITE_BACKUP:
            found.copies.update(dict.fromkeys(((span.engine, key) for key in keys(span)), span.start_ns))
        elif span.name == v.STORAGE_CLEAR and not failed(span):
            found.clears.append(span.end_ns)
    for writes in found.writes.values():
        writes.sort(key=_TIME)
    found.clears.sort()
    return found


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
            found.writes[call.prefix, page.page_key].append(write)
