"""Token accounts that the database works out by itself, and which requests it cannot: of these the rules have to be asked."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from hicachectl.fleet.tally import Tally
from hicachectl.fleet.verdicts import PACKAGE, Other, schemes
from hicachectl.model.attempt import WARMUP_TOKENS
from hicachectl.model.engine import Engine
from hicachectl.store.columns import Database
from hicachectl.store.columns.around import ASKED
from hicachectl.store.columns.database import Sql, literal
from tracers import vocabulary as v

PAGES_AT_ONCE = 8_000_000
"""Pages of prompts that the database compares with what was written in one go: it holds some 50 bytes for each that was computed."""

_MINE = Sql(
    "ResourceAttributes[$R_ENGINE] != '' AND SpanAttributes[$RID] != '' AND NOT startsWith(SpanAttributes[$RID], $HEALTH_RID_PREFIX)"
    " AND cityHash64(SpanAttributes[$RID]) % $parts = $part"
)
_WHO = Sql("cityHash64(SpanAttributes[$RID], ResourceAttributes[$R_ENGINE])")
_ENGINE = "ResourceAttributes[$R_ENGINE]"
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
    """What the question has to know of the processes."""
    kinds = {engine: tuple(schemes(each)) for engine, each in engines.items()}
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds.values()))}
    one_kind = {engine for engine, kind in kinds.items() if len(set(kind)) == 1}
    fit = {engine for engine, each in engines.items() if each.attached_ms is None and (alike or engine in one_kind)}
    return {
        "names": (*ASKED, v.PREFETCH_LOOKUP),
        "mine": _MINE,
        "who": _WHO,
        "warmup": WARMUP_TOKENS,
        "page": _told(engines, lambda each: each.page_size, "toInt64({})"),
        "family": _told({engine: each for engine, each in engines.items() if each.family != engine}, lambda each: each.family, "{}", default=_ENGINE),
        "first": _told(engines, lambda each: int(each.tp_rank == each.pp_rank == 0), "{}"),
        "fit": _told(engines, lambda each: int(each.id in fit), "{}"),
        "scheme": _told(engines, lambda each: numbers[kinds[each.id]], "{}"),
        "twins": Sql("") if alike else _TWINS,
        "print": Sql("''" if alike else "SpanAttributes[$FINGERPRINT]"),
        "alone": Sql("1" if alike else "who NOT IN (SELECT who FROM twinned)"),
    }


def _told(engines: Mapping[str, Engine], value: Callable[[Engine], int | str], form: str, default: str | None = None) -> Sql:
    """An expression for a value of the process of a row: that of most, and those of the exceptions."""
    values = {engine: value(each) for engine, each in engines.items()}
    common = default if default is not None else literal(Counter(values.values()).most_common(1)[0][0])
    apart = {engine: literal(each) for engine, each in values.items() if literal(each) != common}
    if not apart:
        return Sql(form.format(common))
    ids = ", ".join(literal(engine) for engine in apart)
    return Sql(form.format(f"transform({_ENGINE}, [{ids}], [{', '.join(apart.values())}], {common})"))
