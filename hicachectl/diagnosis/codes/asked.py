"""What somebody means by a code: an id of the catalogue, a number of Mooncake's, or the name of one."""

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

from hicachectl.diagnosis import codes
from hicachectl.diagnosis.codes.row import Code

if TYPE_CHECKING:
    from hicachectl.mooncake.errors import ErrorRow

_NUMBER = re.compile(r"[-+]?\d{1,9}")


class Asked(NamedTuple):
    """What was found: rows of the catalogue, or meanings of a number; both empty where nothing has that name."""

    codes: tuple[Code, ...] = ()
    errors: "tuple[ErrorRow, ...]" = ()


def find(text: str) -> Asked:
    """The row or the meanings of TEXT: `R12`, `HC-R12`, `-704`, `704` (the sign is often lost), `OBJECT_NOT_FOUND`."""
    asked = text.strip()
    if codes.canonical(asked) in codes.ALL:
        return Asked(codes=(codes.get(asked),))
    from hicachectl.mooncake import errors  # noqa: PLC0415 - here and below: a code of the catalogue needs no number of Mooncake's

    if _NUMBER.fullmatch(asked):
        number = int(asked)
        signed = errors.lookup(number)
        return Asked(errors=signed + errors.lookup(-number) if number > 0 else signed)
    name = _as_name(asked)
    return Asked(errors=tuple(row for row in errors.ALL if _as_name(row.name) == name))


def nearest(text: str, most: int = 3) -> tuple[str, ...]:
    """What TEXT may have been meant to be: at most MOST ids or names, the nearest first; may be empty."""
    from hicachectl.mooncake import errors  # noqa: PLC0415

    asked = text.strip()
    if _NUMBER.fullmatch(asked):
        known = sorted(
            {row.number for row in errors.ALL if row.number < 0}, key=lambda number: abs(number + abs(int(asked)))
        )
        return tuple(str(number) for number in known[:most])
    ids = difflib.get_close_matches(codes.canonical(asked).upper(), list(codes.ALL), n=most, cutoff=0.6)
    names = {_as_name(row.name): row.name for row in errors.ALL}
    close = difflib.get_close_matches(_as_name(asked), list(names), n=most, cutoff=0.6)
    return (*ids, *(names[name] for name in close))[:most]


def _as_name(text: str) -> str:
    """TEXT as names are compared: `object-not-found`, `ObjectNotFound` and `OBJECT_NOT_FOUND` are one."""
    return re.sub(r"[\s_-]", "", text).upper()
