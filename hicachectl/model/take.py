"""How a span's attributes are taken, with the type that the vocabulary gives them."""

from hicachectl.store import Span
from tracers import vocabulary as v


def number(span: Span | None, key: str) -> int | None:
    """An integer attribute, or None."""
    value = span.get(key) if span is not None else None
    # No `isinstance`: a boolean is one of int.
    return value if type(value) is int else None


def count(span: Span | None, key: str) -> int:
    """An integer attribute, 0 where it is absent."""
    value = span.get(key) if span is not None else None
    return value if type(value) is int else 0


def real(span: Span | None, key: str) -> float | None:
    """A number attribute as a float, or None."""
    value = span.get(key) if span is not None else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def text(span: Span | None, key: str) -> str | None:
    """A string attribute, or None."""
    value = span.get(key) if span is not None else None
    return value if isinstance(value, str) else None


def flag(span: Span | None, key: str) -> bool:
    """A boolean attribute, False where it is absent."""
    return bool(span is not None and span.get(key) is True)


def strings(span: Span | None, key: str) -> list[str]:
    """A list of strings, empty where it is absent."""
    value = span.get(key) if span is not None else None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def numbers(span: Span | None, key: str) -> list[int]:
    """A list of integers, empty where it is absent."""
    value = span.get(key) if span is not None else None
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def keys(span: Span | None, key: str = v.PAGE_KEYS, digits: int = v.PAGE_KEY_DIGITS) -> list[str]:
    """Hashes that one attribute holds without a separator."""
    joined = text(span, key) or ""
    return [joined[start : start + digits] for start in range(0, len(joined) - digits + 1, digits)]


def failed(span: Span | None) -> bool:
    """Whether an exception passed through this call."""
    return span is not None and (span.error or text(span, v.OUTCOME) == v.FAILED)


def codes(span: Span | None) -> dict[int, int]:
    """Return codes of a batch call -> how many objects had them."""
    found: dict[int, int] = {}
    for pair in strings(span, v.OBJECTS_CODES):
        code, _, amount = pair.partition("=")
        try:
            found[int(code)] = int(amount)
        except ValueError:
            continue
    return found
