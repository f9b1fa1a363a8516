"""What a check found."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Level(str, Enum):
    """How much it matters. An error would keep the storage backend, or the prefetch, from working."""

    ok = "ok"
    info = "info"
    warning = "warning"
    error = "error"


@dataclass(frozen=True, slots=True)
class Result:
    """One statement of a check: a sentence, the values that decide it, the finding's code where it has one, and the next step."""

    level: Level
    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    code: str = ""
    next: str = ""


def ok(title: str, **facts: Any) -> Result:
    """All is as it should be."""
    return Result(Level.ok, title, facts)


def info(title: str, code: str = "", next_step: str = "", **facts: Any) -> Result:
    """Worth knowing, nothing to do."""
    return Result(Level.info, title, facts, code, next_step)


def warning(title: str, code: str = "", next_step: str = "", **facts: Any) -> Result:
    """It runs, but not as it was asked for or not as well."""
    return Result(Level.warning, title, facts, code, next_step)


def error(title: str, code: str = "", next_step: str = "", **facts: Any) -> Result:
    """It would not work."""
    return Result(Level.error, title, facts, code, next_step)
