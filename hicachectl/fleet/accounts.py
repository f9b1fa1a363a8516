"""Token accounts that the database works out by itself, and which requests it cannot: of these the rules have to be asked."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from zlib import crc32

import msgspec

from hicachectl.fleet.tally import Tally
from hicachectl.fleet.verdicts import PACKAGE, Other, schemes
from hicachectl.model.attempt import WARMUP_TOKENS
from hicachectl.model.engine import Engine
from hicachectl.store.columns import Database
from hicachectl.store.columns.around import ASKED
from hicachectl.store.columns.database import Sql, array
from tracers import vocabulary as v

PAGES_AT_ONCE = 8_000_000
"""Pages of prompts that the database compares with what was written in one go: it holds some 50 bytes for each that was computed."""
MOST_ENGINES = 7500
"""Processes that the question names, some 29 bytes each: its text is bounded (`max_query_size`, 256 KiB). Requests of others are left to the rules."""
MOST_KINDS = 250
"""Kinds of processes that it tells apart."""

_MINE = Sql(
    "ResourceAttributes[$R_ENGINE] != '' AND SpanAttributes[$RID] != '' AND NOT startsWith(SpanAttributes[$RID], $HEALTH_RID_PREFIX)"
    " AND cityHash64(SpanAttributes[$RID]) % $parts = $part"
)
_WHO = Sql("cityHash64(SpanAttributes[$RID], ResourceAttributes[$R_ENGINE])")
_TWINS = Sql("""
    blocks AS (SELECT who, cityHash64(substring(print, intDiv(prefix, $FINGERPRINT_BLOCK) * $FINGERPRINT_DIGITS + 1, $FINGERPRINT_DIGITS)) AS block FROM computed),
    shared AS
    (
        SELECT block
        FROM
        (
            SELECT cityHash64($scheme, substring(SpanAttributes[$PROMPT_PAGE_KEYS], 1, $PAGE_KEY_DIGITS)) AS kind, SpanAttributes[$FINGERPRINT] AS print,
                arrayMap(block -> cityHash64(block), extractAll(print, $block_key)) AS blocks
            FROM $TABLE
            WHERE SpanName = $REQUEST_QUEUED AND ResourceAttributes[$R_ENGINE] != ''
        )
        ARRAY JOIN blocks AS block
        WHERE block IN (SELECT block FROM blocks)
        GROUP BY block
        HAVING min(kind) != max(kind)
    ),
    twinned AS (SELECT who FROM blocks WHERE block IN (SELECT block FROM shared)),
""")
"""A fingerprint is a chain: who shares a later block shares this one as well."""


class _Sum(msgspec.Struct, array_like=True):
    engine: str
    other: str
    """A request of which the rules have to be asked, or ''."""
    since: str
    traces: list[str]
    pages: int
    seen: int
    requests: int
    waiting: int
    prompt: int
    device: int
    host: int
    storage: int
    computed: int
    tail: int


class _Number(msgspec.Struct, array_like=True):
    number: int


@dataclass(slots=True)
class Sums:
    """What the database has added up."""

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    """Engine of rank 0 -> its requests, but for the others."""
    seen: Counter[str] = field(default_factory=Counter)
    """Engine of any rank -> those requests that it saw."""
    others: dict[str, Other] = field(default_factory=dict)
    """Requests of which the rules have to be asked, in the order in which they came."""


def accounts(database: Database, engines: Mapping[str, Engine], *, alike: bool) -> Sums:
    """Add up the requests that can have lost nothing, a part of all at a time; ALIKE: the same tokens have the same keys everywhere.

    A request is left to the rules where anything is unusual about it, and where a page that it computed was in the store or may have been under another key.
    """
    words = _words(engines, alike=alike)
    pages = next(database.ask(PACKAGE, "pages", _Number)).number
    parts = 1 + pages // PAGES_AT_ONCE
    found, others = Sums(), list[_Sum]()
    for part in range(parts):
        for each in database.ask(PACKAGE, "accounts", _Sum, part=part, parts=parts, **words):
            if each.other:
                others.append(each)
            else:
                _add(found, each)
    for each in sorted(others, key=lambda one: (one.since, one.other)):
        one = found.others.setdefault(each.other, Other(each.other))
        one.traces += each.traces
        one.pages += each.pages
    return found


def _add(found: Sums, each: _Sum) -> None:
    found.seen[each.engine] += each.seen
    if each.requests:
        new = each.computed - each.tail
        found.tallies[each.engine].add(Tally(each.requests, each.prompt, each.device, each.host, each.storage, each.computed, new, each.tail, each.waiting))


def _words(engines: Mapping[str, Engine], *, alike: bool) -> dict[str, Sql | int | tuple[str, ...]]:
    """What the question has to know of the processes: each is named once, by a number, with the number of its kind."""
    of_engine = _kinds(engines, alike=alike)
    kinds = [_unnamed(engines), *islice(dict.fromkeys(of_engine.values()), MOST_KINDS)]
    named = _numbered(engine for engine in engines if of_engine[engine] in kinds)
    place = {kind: number for number, kind in enumerate(kinds, 1)}
    # The first stands for no process, so that there is one.
    numbers, numbers_of_kinds = [0, *named.values()], [1, *(place[of_engine[engine]] for engine in named)]
    families = [0, *(named.get(engines[engine].family, number) for engine, number in named.items())]
    of_kind = {name: Sql(f"{array(getattr(kind, name) for kind in kinds)}[$kind]") for name in _Kind._fields}
    return {
        **of_kind,
        "page": Sql(f"toInt64({of_kind['page']})"),
        "names": (*ASKED, v.PREFETCH_LOOKUP),
        "mine": _MINE,
        "who": _WHO,
        "warmup": WARMUP_TOKENS,
        "numbers": array(numbers),
        "kinds": array(numbers_of_kinds),
        "families": array(families),
        "kind": Sql("transform(CRC32(ResourceAttributes[$R_ENGINE]), numbers, kinds, 1)"),
        "family": Sql("transform(CRC32(ResourceAttributes[$R_ENGINE]), numbers, families, CRC32(ResourceAttributes[$R_ENGINE]))"),
        "twins": Sql("") if alike else _TWINS,
        "print": Sql("''" if alike else "SpanAttributes[$FINGERPRINT]"),
        "alone": Sql("1" if alike else "who NOT IN (SELECT who FROM twinned)"),
    }


class _Kind(NamedTuple):
    """What the question has to know of a process."""

    page: int
    first: int
    fit: int
    """Whether any of its requests can be added up without the rules."""
    scheme: int
    """Processes with the same number give the same tokens the same object keys."""


def _kinds(engines: Mapping[str, Engine], *, alike: bool) -> dict[str, _Kind]:
    told = {engine: tuple(schemes(each)) for engine, each in engines.items()}
    place = {kind: number for number, kind in enumerate(dict.fromkeys(told.values()))}
    fit = {engine for engine, each in engines.items() if each.attached_ms is None and (alike or len(set(told[engine])) == 1)}
    return {engine: _Kind(each.page_size, int(each.tp_rank == each.pp_rank == 0), int(engine in fit), place[told[engine]]) for engine, each in engines.items()}


def _unnamed(engines: Mapping[str, Engine]) -> _Kind:
    """The kind of a process that the question does not name: its requests are left to the rules."""
    page = Counter(each.page_size for each in engines.values()).most_common(1)[0][0]
    return _Kind(page, first=0, fit=0, scheme=0)


def _numbered(engines: Iterable[str]) -> dict[str, int]:
    """Of so many processes as a question can name the numbers, by which the database knows them too; a number that two have is nobody's."""
    numbers = {engine: crc32(engine.encode()) for engine in islice(engines, MOST_ENGINES)}
    times = Counter(numbers.values())
    return {engine: number for engine, number in numbers.items() if number and times[number] == 1}
