"""The fleet at a glance: what each rank served and lost, what is slow, which ranks lag, and which engines cannot share."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from hicachectl.diagnosis.rules.keys import apart
from hicachectl.fleet.accounts import accounts
from hicachectl.fleet.tally import Tally
from hicachectl.fleet.verdicts import PACKAGE, keys_alike, processes, verdicts
from hicachectl.model.attempt import Attempt
from hicachectl.model.engine import Engine
from hicachectl.store import Recording
from hicachectl.store.columns import Database, around
from tracers import vocabulary as v

MOST_SLOW = 10


class Work(msgspec.Struct, array_like=True):
    """Lookups or transfers of one process; tokens are those found, or read."""

    engine: str
    name: str
    count: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    tokens: int


class Slow(msgspec.Struct, array_like=True):
    """One transfer."""

    engine: str
    rid: str
    span_id: str
    start_ns: int
    ms: float
    agreed: int
    done: int


@dataclass(slots=True)
class Skew:
    """Ranks of one server at the same work: milliseconds at the median by rank."""

    server: str
    name: str
    ranks: dict[str, float]

    @property
    def ratio(self) -> float:
        """The slowest rank over the fastest."""
        fastest = min(self.ranks.values())
        return max(self.ranks.values()) / fastest if fastest else 0.0


@dataclass(slots=True)
class Apart:
    """Two servers that cannot read each other's pages: (code, field, value of the first, of the second), the cause first."""

    first: str
    second: str
    fields: list[tuple[str, str, object, object]]


@dataclass(slots=True)
class Fleet:
    """Everything that `hicachectl fleet` tells."""

    recording: Recording
    engines: dict[str, Engine]
    tallies: dict[str, Tally]
    """Engine of rank 0 -> its requests."""
    seen: Counter[str]
    """Engine of any rank -> requests that it saw."""
    work: list[Work]
    slowest: list[Slow]
    skew: list[Skew]
    groups: list[list[str]]
    """Servers that can read each other's pages, by their first ranks."""
    apart: list[Apart]

    @property
    def total(self) -> Tally:
        """All requests."""
        found = Tally()
        for each in self.tallies.values():
            found.add(each)
        return found

    @property
    def spans(self) -> int:
        """Spans that there are."""
        return sum(self.recording.have.values())


def fleet(database: Database) -> Fleet:
    """Ask DATABASE, and judge every request in it."""
    known = around.processes(database)
    every = processes(database, known)
    engines = {id_: engine for id_, engine in every.items() if engine.scheduler}
    alike = keys_alike(database, every)
    sums = accounts(database, every, alike=alike)
    tallies, seen = sums.tallies, sums.seen
    for one in verdicts(database, known, sums.others.values(), alike=alike):
        tallies[one.journey.attempt.engine.id].take(one)
        seen.update(rank.engine.id for rank in one.journey.ranks)
    work = list(database.ask(PACKAGE, "transfers", Work))
    slowest = list(database.ask(PACKAGE, "slowest", Slow, most=MOST_SLOW))
    return Fleet(around.recording(database, known), engines, dict(tallies), seen, work, slowest, list(_skew(work, engines)), *_kinds(engines.values()))


def rank_name(engine: Engine) -> str:
    """How a rank is called: TP0, or PP1 TP0 where there are stages."""
    return (f"PP{engine.pp_rank} " if engine.pp_size > 1 else "") + f"TP{engine.tp_rank}"


def _skew(work: Iterable[Work], engines: dict[str, Engine]) -> Iterator[Skew]:
    ranks: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for each in work:
        engine = engines.get(each.engine)
        if engine is not None:
            ranks[engine.family, each.name][rank_name(engine)] = each.p50_ms
    yield from (Skew(server, name, found) for (server, name), found in sorted(ranks.items()) if len(found) > 1)


def _kinds(engines: Iterable[Engine]) -> tuple[list[list[str]], list[Apart]]:
    """Servers that name the same objects for the same tokens, in groups; and for each two groups what keeps their first servers apart."""
    firsts: list[Engine] = []
    groups: list[list[str]] = []
    found: list[Apart] = []
    for engine in engines:
        if engine.tp_rank or engine.pp_rank or engine.backend_name is None:
            continue
        fields = [_differences(first, engine) for first in firsts]
        if all(fields):
            found += (Apart(first.id, engine.id, each) for first, each in zip(firsts, fields, strict=True))
            firsts.append(engine)
            groups.append([engine.id])
        else:
            groups[next(at for at, each in enumerate(fields) if not each)].append(engine.id)
    return groups, found


def _differences(first: Engine, second: Engine) -> list[tuple[str, str, object, object]]:
    master = [("", "store", one, other) for one, other in ((first.text(v.MASTER), second.text(v.MASTER)),) if one != other]
    return [*master, *apart(Attempt("", 0, first), Attempt("", 0, second))]
