"""The answers of one batch call at the binding, page by page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hicachectl.model.take import codes, count, keys, number, numbers, strings, text
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


@dataclass(frozen=True, slots=True)
class Batch:
    """One call of exist, put or get with its objects."""

    span: Span
    prefix: str
    suffixes: tuple[str, ...]
    pages: tuple[PageAnswer, ...]
    cut: bool
    """Detail was left out: pages beyond what is listed are not known."""

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
    """Read the object detail of a STORE_EXIST, STORE_PUT or STORE_GET span."""
    suffixes = tuple(strings(span, v.OBJECT_SUFFIXES))
    cut = span.attributes.get(v.DETAIL_CUT) is True
    return Batch(span, text(span, v.OBJECT_PREFIX) or "", suffixes, tuple(_pages(span, suffixes)), cut)


def _pages(span: Span, suffixes: tuple[str, ...]) -> Iterator[PageAnswer]:
    page_keys = keys(span)
    width = len(suffixes)
    if not page_keys or not width:
        return
    listed = numbers(span, v.OBJECT_INDICES)
    if not listed and not numbers(span, v.BAD_OBJECTS) and count(span, v.OBJECTS_OK):
        # Nearly every call: all objects of all pages, none of them bad.
        for key in page_keys:
            yield PageAnswer(key, suffixes, ())
        return
    places = listed or range(len(page_keys) * width)
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
