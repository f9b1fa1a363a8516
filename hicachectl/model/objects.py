"""The answers of one batch call at the binding, page by page."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hicachectl.model.names import page_name, page_names
from hicachectl.model.once import once
from hicachectl.model.take import codes, count, flag, keys, number, numbers, strings, text
from hicachectl.store import Span
from tracers import vocabulary as v


class PageAnswer(NamedTuple):
    """How the objects of one page fared in one call."""

    page_key: str
    good: tuple[str, ...]
    """Suffixes of the objects that succeeded."""
    bad: tuple[str, ...]
    """Suffixes of the objects that did not."""

    @property
    def whole(self) -> bool:
        """Every object of the page that was in the call succeeded."""
        return not self.bad and bool(self.good)


@dataclass(eq=False)
class Batch:
    """One call of exist, put or get with its objects."""

    span: Span

    @once
    def prefix(self) -> str:
        """What stands before the page key in the object keys of this call."""
        return text(self.span, v.OBJECT_PREFIX) or ""

    @once
    def suffixes(self) -> tuple[str, ...]:
        """What stands behind it, one for each object of a page."""
        return tuple(strings(self.span, v.OBJECT_SUFFIXES))

    @property
    def cut(self) -> bool:
        """Detail was left out: pages beyond what is listed are not known."""
        return flag(self.span, v.DETAIL_CUT)

    @once
    def names(self) -> tuple[Hashable, ...]:
        """Every page of the call, as `Pages` names it."""
        return page_names(text(self.span, v.PAGE_KEYS) or "") if self.suffixes else ()

    @once
    def pages(self) -> tuple[PageAnswer, ...]:
        """The answers page by page; most of what is asked of a call is answered without them."""
        page_keys = keys(self.span) if self.suffixes else []
        if not page_keys:
            return ()
        if self._fared_alike is None:
            return tuple(_pages(self.span, page_keys, self.suffixes))
        good, bad = (self.suffixes, ()) if self._fared_alike else ((), self.suffixes)
        return tuple(PageAnswer(key, good, bad) for key in page_keys)

    @once
    def _fared_alike(self) -> bool | None:
        """Whether every object of every page succeeded, or none did, as in nearly every call; None where they differ."""
        if numbers(self.span, v.OBJECT_INDICES):
            return None
        if not count(self.span, v.OBJECTS_OK):
            return False
        return None if numbers(self.span, v.BAD_OBJECTS) else True

    @property
    def whole(self) -> Sequence[Hashable]:
        """Names of pages of which every object that was in the call succeeded."""
        if self._fared_alike is None:
            return [page_name(page.page_key) for page in self.pages if page.whole]
        return self.names if self._fared_alike else []

    @property
    def spoilt(self) -> Sequence[Hashable]:
        """Names of every other page: an object of it did not succeed, or none is told."""
        if self._fared_alike is None:
            return [page_name(page.page_key) for page in self.pages if not page.whole]
        return self.bad

    @property
    def bad(self) -> Sequence[Hashable]:
        """Names of pages of which an object did not succeed."""
        if self._fared_alike is None:
            return [page_name(page.page_key) for page in self.pages if page.bad]
        return [] if self._fared_alike else self.names

    @once
    def good_runs(self) -> list[tuple[tuple[str, ...], Sequence[Hashable]]]:
        """Suffixes of objects that succeeded, with the names of the pages of which just these did, in the order of the call."""
        if self._fared_alike is not None:
            return [(self.suffixes, self.names)] if self._fared_alike and self.names else []
        found: dict[tuple[str, ...], list[Hashable]] = {}
        for page in self.pages:
            if page.good:
                found.setdefault(page.good, []).append(page_name(page.page_key))
        return list(found.items())

    @property
    def codes(self) -> dict[int, int]:
        """Return code -> objects."""
        return codes(self.span)

    @property
    def failed_code(self) -> int | None:
        """The worst negative code of the call, or None."""
        negative = [code for code in self.codes if code < 0]
        return max(negative, key=lambda code: self.codes[code]) if negative else None

    @property
    def object_bytes(self) -> int | None:
        """Bytes of one object, where all are equal."""
        return number(self.span, v.OBJECT_BYTES)

    @property
    def first_bad_key(self) -> str | None:
        """Object key of the first object that did not succeed."""
        return text(self.span, v.FIRST_BAD_KEY)


def batch(span: Span) -> Batch:
    """Read the object detail of a STORE_EXIST, STORE_PUT or STORE_GET span, as far as it is asked for."""
    return Batch(span)


def _pages(span: Span, page_keys: list[str], suffixes: tuple[str, ...]) -> Iterator[PageAnswer]:
    """The answers of a call whose objects did not all fare alike, or of which not all are listed."""
    width = len(suffixes)
    places = numbers(span, v.OBJECT_INDICES) or range(len(page_keys) * width)
    bad_at = set(numbers(span, v.BAD_OBJECTS))
    # A list of failures that was cut says nothing of the objects after it.
    all_bad = count(span, v.OBJECTS_OK) == 0
    good: list[list[str]] = [[] for _ in page_keys]
    bad: list[list[str]] = [[] for _ in page_keys]
    for index, place in enumerate(places):
        page, suffix = divmod(place, width)
        if page < len(page_keys):
            (bad if all_bad or index in bad_at else good)[page].append(suffixes[suffix])
    for page, key in enumerate(page_keys):
        yield PageAnswer(key, tuple(good[page]), tuple(bad[page]))
