"""A finding: a code with arguments and evidence; and where findings fold into their cause."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hicachectl.diagnosis.codes import get, rank
from hicachectl.store import Span

if TYPE_CHECKING:
    from hicachectl.model.engine import Engine
    from hicachectl.model.journey import Journey

MOST_EVIDENCE = 32


@dataclass(slots=True)
class Finding:
    """One thing found; `causal` where it explains a loss or a failed rung, `tokens` what it cost each request."""

    code: str
    args: dict[str, object] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    rids: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    certain: bool = True
    causal: bool = False
    serving: bool = False
    """The backend serves all the same: the level is the one for that case."""
    tokens: int = 0
    folded: list[str] = field(default_factory=list)
    unwritten: frozenset[str] = frozenset()
    """Page keys that a fault of the write side kept from the store: later requests may miss them."""
    time_ns: int = 0
    """When that write was due."""

    @property
    def level(self) -> str:
        """error, warning or info."""
        row = get(self.code)
        return row.level_if_serving or row.level if self.serving else row.level

    @property
    def title(self) -> str:
        """The row's title, filled."""
        return get(self.code).titled(self.args)

    @property
    def next(self) -> str:
        """The command or setting to try."""
        return get(self.code).next


def finding(code: str, *, args: dict[str, object] | None = None, evidence: Iterable[Span | str | None] = (), **told: object) -> Finding:
    """A finding whose evidence is given as spans or span ids; absent ones are left out."""
    ids = [each.span_id if isinstance(each, Span) else each for each in evidence if each is not None]
    return Finding(code=get(code).id, args=dict(args or {}), evidence=list(dict.fromkeys(ids))[:MOST_EVIDENCE], **told)  # type: ignore[arg-type]


def of_request(journey: "Journey", code: str, **told: object) -> Finding:
    """A finding about one request."""
    return finding(code, rids=[journey.attempt.rid], engines=[journey.attempt.engine.id], **told)  # type: ignore[arg-type]


def of_engine(engine: "Engine", code: str, **told: object) -> Finding:
    """A finding about one process."""
    return finding(code, engines=[engine.id], **told)  # type: ignore[arg-type]


def order(found: Finding) -> tuple[int, int, str]:
    """Causes before consequences, whatever the level; what explains no loss comes after them, and a request's own later write last."""
    beside = 2 if get(found.code).letter == "W" else 1
    place = 0 if found.causal else beside
    return (place, rank(found.code), ",".join(found.rids))
