"""The order of release numbers, so that tables can say from which release on a row holds."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

_FORM = re.compile(r"v?(?P<numbers>\d+(?:\.\d+)*)[-._]?(?:(?P<stage>a|b|alpha|beta|rc|dev|post)[-._]?(?P<count>\d*))?")
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "": 0, "post": 1}


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A release number that can be compared: 0.3.11rc1 < 0.3.11 < 0.3.11.post1 < 0.3.12."""

    numbers: tuple[int, ...]
    stage: int
    count: int
    text: str = field(compare=False)

    @classmethod
    def of(cls, text: str) -> "Release":
        """Read TEXT such as "0.5.14", "v0.3.11.post1" or "0.5.23+cu129"; ValueError when it is no release number."""
        match = _FORM.match(text.strip())
        if match is None:
            raise ValueError(f"not a release number: {text!r}")
        numbers = [int(part) for part in match["numbers"].split(".")]
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers.pop()
        return cls(tuple(numbers), _STAGES[match["stage"] or ""], int(match["count"] or 0), text.strip())


@lru_cache(64)
def is_since(text: str | None, release: str) -> bool | None:
    """Whether a recorded release number is RELEASE or a later one; None where TEXT is none."""
    try:
        return Release.of(text or "") >= Release.of(release)
    except ValueError:
        return None
