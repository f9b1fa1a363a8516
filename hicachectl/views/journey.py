"""One request span by span, and all requests in one table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hicachectl.exits import one_line
from hicachectl.store import Span, Value
from hicachectl.views import palette
from hicachectl.views.table import Column, document, span_of_time, table
from tracers import vocabulary as v

if TYPE_CHECKING:
    from rich.text import Text

    from hicachectl.model.account import Account
    from hicachectl.model.journey import Journey, Rung

REQUESTS = (
    Column("START"),
    Column("REQUEST", grows=True),
    Column("TRY", number=True),
    Column("ENGINE"),
    Column("PROMPT", number=True),
    Column("DEVICE", number=True),
    Column("HOST", number=True),
    Column("STORAGE", number=True),
    Column("COMPUTED", number=True),
    Column("BACKEND"),
    Column("TRANSFER"),
    Column("REUSED"),
    Column("TOOK", number=True),
)
SPANS = (
    Column("AT", number=True),
    Column("TOOK", number=True),
    Column("SPAN"),
    Column("THREAD"),
    Column("FACTS", grows=True),
)
_SHORT = ("hicache.", "hicachectl.", "mooncake.")
_PLAIN = frozenset({v.RID, v.OUTCOME, v.REASON, v.ERROR, v.ERROR_TEXT, "thread.id", "thread.name"})
"""Attributes that have a place of their own."""
_HASHES: Mapping[str, int] = {
    v.PAGE_KEYS: v.PAGE_KEY_DIGITS,
    v.PROMPT_PAGE_KEYS: v.PAGE_KEY_DIGITS,
    v.FINGERPRINT: v.FINGERPRINT_DIGITS,
}
"""Attributes that hold hashes without a separator -> digits of one."""
_LATEST_NS = 253_000_000_000 * 1_000_000_000
_SHOWN_ITEMS = 4
_SHOWN_TEXT = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One request in one engine: tokens by tier (None where no prefill was seen) and the rungs of the ladder."""

    rid: str
    attempt: int
    engine: str
    start_ns: int
    end_ns: int
    prompt: int | None
    device: int | None
    host: int | None
    storage: int | None
    computed: int | None
    ladder: Mapping[str, str]


def row(journey: "Journey", account: "Account", ladder: "Mapping[str, Rung]") -> Row:
    """One line of the table; a request that never reached a prefill has no tokens by tier."""
    attempt = journey.attempt
    seen = attempt.first_prefill is not None
    return Row(
        rid=attempt.rid,
        attempt=attempt.number,
        engine=attempt.engine.id,
        start_ns=attempt.start_ns,
        end_ns=max((span.end_ns for span in attempt.own), default=attempt.start_ns),
        prompt=attempt.prompt_tokens,
        device=account.device if seen else None,
        host=account.host if seen else None,
        storage=account.storage if seen else None,
        computed=account.computed if seen else None,
        ladder={name: rung.state for name, rung in ladder.items()},
    )


def requests(rows: Sequence[Row], *, width: int | None, colour: bool) -> str:
    """ROWS as a table in the order of their start; times are local."""
    return table(REQUESTS, (_request(row) for row in rows), width=width, colour=colour)


def journey(rid: str, spans: Sequence[Span], *, width: int | None, colour: bool) -> str:
    """SPANS of the request RID as one timeline for each engine, calls inside calls indented; times count from its first span."""
    parts = []
    begun = min((span.start_ns for span in spans), default=0)
    for engine, own in _by_engine(spans):
        heading = f"{one_line(rid)} in {one_line(engine) or 'a foreign process'}, from {_clock(begun)}"
        lines = (_span(span, depth, begun) for span, depth in tree(own))
        parts.append(f"{heading}\n" + table(SPANS, lines, width=width, colour=colour))
    return "\n".join(parts)


def show_document(
    runs: Sequence[str], complete: bool, dropped: int, rows: Sequence[Row], spans: Mapping[str, Sequence[Span]]
) -> str:
    """The JSON document: ROWS, and for request ids in SPANS each of their spans."""
    return document(
        "show",
        {
            "runs": list(runs),
            "complete": complete,
            "dropped_spans": dropped,
            "requests": [_entry(row) for row in rows],
            "spans": {rid: [_document(span, depth) for span, depth in tree(own)] for rid, own in spans.items()},
        },
    )


def tree(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """SPANS in time order, each directly followed by what it called, with the depth."""
    known = {span.span_id for span in spans}
    below: dict[str, list[Span]] = {}
    for span in spans:
        parent = span.parent_id if span.parent_id in known and span.parent_id != span.span_id else ""
        below.setdefault(parent, []).append(span)
    seen: set[str] = set()
    todo = [(span, 0) for span in reversed(below.get("", []))]
    while todo:
        span, depth = todo.pop()
        if span.span_id not in seen:
            seen.add(span.span_id)
            yield span, depth
            todo += [(child, depth + 1) for child in reversed(below.get(span.span_id, []))]
    yield from ((span, 0) for span in spans if span.span_id not in seen)  # parents that form a ring


def facts(span: Span) -> "Text":
    """What a span says, in one line: outcome and reason first, hashes counted, long texts cut."""
    from rich.text import Text  # noqa: PLC0415 - here and below: JSON draws nothing

    told = span.attributes
    line = Text()
    outcome = told.get(v.OUTCOME)
    if span.error or outcome == v.FAILED:
        what = " ".join(str(told[key]) for key in (v.ERROR, v.ERROR_TEXT) if key in told)
        line.append(f"failed {one_line(what)} ".replace("  ", " "), palette.ERROR)
    elif outcome not in (None, v.OK):
        line.append(f"{one_line(str(outcome))} ", palette.WARNING)
    if v.REASON in told:
        line.append(f"{one_line(str(told[v.REASON]))} ", palette.WARNING)
    line.append(", ".join(f"{short(key)} {_value(key, value)}" for key, value in told.items() if key not in _PLAIN))
    line.rstrip()
    return line


def short(name: str) -> str:
    """A span name or attribute key without what all of ours begin with."""
    for prefix in _SHORT:
        if name.startswith(prefix):
            return one_line(name.removeprefix(prefix))
    return one_line(name)


def _value(key: str, value: Value) -> str:
    digits = _HASHES.get(key)
    if digits and isinstance(value, str):
        return f"{len(value) // digits} ({one_line(value[:8])}..)" if value else "0"
    if isinstance(value, list):
        shown = ", ".join(_cut(str(one)) for one in value[:_SHOWN_ITEMS])
        return f"[{shown}{', ..' if len(value) > _SHOWN_ITEMS else ''}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ("yes" if value else "no") if isinstance(value, bool) else _cut(str(value))


def _cut(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}.."


def _span(span: Span, depth: int, begun: int) -> list[object]:
    from rich.text import Text  # noqa: PLC0415

    name = Text("  " * depth + short(span.name), palette.ERROR if span.error else palette.NAME)
    return [
        f"+{span_of_time(span.start_ns - begun)}",
        span_of_time(span.duration_ns),
        name,
        span.thread_name,
        facts(span),
    ]


def _by_engine(spans: Sequence[Span]) -> list[tuple[str, list[Span]]]:
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.engine, []).append(span)
    return list(found.items())


def _request(row: Row) -> list[object]:
    from rich.text import Text  # noqa: PLC0415

    rungs = [
        Text(state, palette.RUNGS.get(state, "")) for state in map(row.ladder.get, _HEADLINES) if state is not None
    ]
    process = ":".join(row.engine.split(":")[:2])
    numbers = [row.prompt, row.device, row.host, row.storage, row.computed]
    took = span_of_time(row.end_ns - row.start_ns)
    return [_clock(row.start_ns), row.rid, row.attempt, process, *numbers, *rungs, took]


_HEADLINES = ("backend_created", "transfer_done", "prefix_reused")


def _moment(ns: int) -> datetime:
    """The date of a time in nanoseconds; the first or the last that there is, where a recording tells one that is none."""
    return datetime.fromtimestamp(min(max(ns, 0), _LATEST_NS) / 1e9, timezone.utc)


def _clock(ns: int) -> str:
    return _moment(ns).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _entry(row: Row) -> dict[str, object]:
    return {
        "rid": row.rid,
        "attempt": row.attempt,
        "engine": row.engine,
        "start": _moment(row.start_ns).isoformat(timespec="milliseconds"),
        "start_ns": row.start_ns,
        "took_ms": round((row.end_ns - row.start_ns) / 1e6, 3),
        "prompt_tokens": row.prompt,
        "tokens": {
            "reused": {"device": row.device, "host": row.host, "storage": row.storage},
            "computed": row.computed,
        },
        "ladder": dict(row.ladder),
    }


def _document(span: Span, depth: int) -> dict[str, object]:
    return {
        "span_id": span.span_id,
        "parent_id": span.parent_id or None,
        "trace_id": span.trace_id,
        "depth": depth,
        "name": span.name,
        "engine": span.engine,
        "thread": {"id": span.thread_id, "name": span.thread_name},
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "error": span.error,
        "attributes": span.attributes,
        "links": [link.span_id for link in span.links],
    }
