"""Whole numbers as text: what `isdigit` says yes to and `int` refuses (superscripts, thousands of digits) is none."""

_MOST_DIGITS = 19
"""As many as a 64-bit number has."""


def whole(text: str) -> int | None:
    """The number that TEXT writes in ASCII digits; None for anything else, and for more digits than a 64-bit number has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
