"""`fleet` as text and as JSON: hosts and ranks, losses, what is slow, which ranks lag, who does not share and why."""

from collections.abc import Iterator, Sequence
from typing import Any

from hicachectl.diagnosis.codes import get, rank
from hicachectl.fleet.report import Apart, Fleet, Slow, Work, rank_name
from hicachectl.fleet.tally import Tally
from hicachectl.model.engine import Engine
from hicachectl.views.table import Column, document, table
from tracers import vocabulary as v

WORK = {v.PREFETCH_LOOKUP: "lookups", v.PREFETCH_TRANSFER: "transfers"}
_ENGINES = (
    Column("HOST"), Column("PID", number=True), Column("RANK"), Column("REQUESTS", number=True), Column("PROMPT", number=True), Column("DEVICE", number=True),
    Column("HOST KV", number=True), Column("STORAGE", number=True), Column("LOST", number=True), Column("NEW", number=True), Column("TAIL", number=True),
    Column("TRANSFERS", number=True), Column("P50 MS", number=True), Column("P99 MS", number=True),
)  # fmt: skip
_LOSSES = (Column("CODE"), Column("TOKENS", number=True), Column("REQUESTS", number=True), Column("MEANING", grows=True))
_SLOW = (Column("MS", number=True), Column("HOST"), Column("REQUEST"), Column("ASKED", number=True), Column("READ", number=True), Column("SPAN"))
_SKEW = (Column("SERVER"), Column("WORK"), Column("SLOWEST"), Column("MS", number=True), Column("FASTEST"), Column("MS", number=True), Column("RATIO", number=True))
_APART = (Column("SERVER"), Column("AND"), Column("CODE"), Column("DIFFER IN"), Column("FIRST"), Column("SECOND", grows=True))


def as_json(found: Fleet) -> str:
    """The document `hicachectl/fleet/1`."""
    recording = found.recording
    return document(
        "fleet",
        {
            "source": recording.paths[0],
            "spans": found.spans,
            "complete": recording.complete,
            "incomplete": recording.incomplete,
            "dropped_spans": recording.dropped,
            "total": _tally(found.total),
            "engines": [_engine(found, engine) for engine in found.engines.values()],
            "lost": [{"code": code, "title": get(code).plain, "tokens": tokens, "requests": requests} for code, tokens, requests in losses(found.total)],
            "slowest": [_slow(each) for each in found.slowest],
            "skew": [{"server": each.server, "work": WORK[each.name], "p50_ms": each.ranks, "ratio": round(each.ratio, 3)} for each in found.skew],
            "groups": found.groups,
            "apart": [_pair(each) for each in found.apart],
        },
    )


def as_text(found: Fleet, *, width: int | None, colour: bool) -> str:
    """The same for a person."""
    parts = [table(_ENGINES, _rows(found), width=width, colour=colour)]
    for heading, columns, rows in _sections(found):
        if rows:
            parts.append(f"{heading}\n{table(columns, rows, width=width, colour=colour)}")
    return "\n".join(parts)


def losses(of: Tally) -> list[tuple[str, int, int]]:
    """(code, tokens, requests), the most tokens first."""
    return sorted(((code, tokens, of.losers[code]) for code, tokens in of.lost.items()), key=lambda each: (-each[1], rank(each[0])))


def _rows(found: Fleet) -> Iterator[Sequence[Any]]:
    for id_, engine in found.engines.items():
        own, transfers = found.tallies.get(id_), _work(found, id_, v.PREFETCH_TRANSFER)
        told = (own.prompt, own.device, own.host, own.storage, sum(own.lost.values()), own.new, own.tail) if own is not None else (None,) * 7
        times = (transfers.count, f"{transfers.p50_ms:.2f}", f"{transfers.p99_ms:.2f}") if transfers is not None else (0, None, None)
        yield (engine.host, engine.pid, rank_name(engine), found.seen[id_], *told, *times)
    total = found.total
    yield ("all", None, None, total.requests, total.prompt, total.device, total.host, total.storage, sum(total.lost.values()), total.new, total.tail, None, None, None)


def _sections(found: Fleet) -> Iterator[tuple[str, Sequence[Column], list[Sequence[Any]]]]:
    yield "tokens that were in the store and were computed all the same", _LOSSES, [(code, tokens, requests, get(code).plain) for code, tokens, requests in losses(found.total)]
    yield "slowest transfers", _SLOW, [(f"{each.ms:.2f}", _host(each.engine), each.rid, each.agreed, each.done, each.span_id) for each in found.slowest]
    skew: list[Sequence[Any]] = []
    for each in found.skew:
        slow, fast = max(each.ranks, key=lambda one: each.ranks[one]), min(each.ranks, key=lambda one: each.ranks[one])
        skew.append((_short(each.server), WORK[each.name], slow, f"{each.ranks[slow]:.2f}", fast, f"{each.ranks[fast]:.2f}", f"{each.ratio:.2f}"))
    yield "ranks of one server, at the median", _SKEW, skew
    yield "servers that cannot read each other's pages", _APART, [(_short(each.first), _short(each.second), code or None, name, one, other) for each in found.apart for code, name, one, other in _fields(each)]


def _engine(found: Fleet, engine: Engine) -> dict[str, Any]:
    own = found.tallies.get(engine.id)
    return {
        "engine": engine.id,
        "host": engine.host,
        "pid": engine.pid,
        "server": engine.family,
        "tp_rank": engine.tp_rank,
        "pp_rank": engine.pp_rank,
        "sglang": engine.sglang,
        "mooncake": engine.mooncake,
        "backend": {"name": engine.backend_name, "state": engine.backend_state()[0]},
        "spans": found.recording.have.get(engine.id, 0),
        "requests": found.seen[engine.id],
        "tokens": _tally(own) if own is not None else None,
        **{WORK[name]: _times(_work(found, engine.id, name)) for name in WORK},
    }


def _tally(of: Tally) -> dict[str, Any]:
    return {
        "requests": of.requests,
        "never_prefilled": of.waiting,
        "prompt": of.prompt,
        "reused": {"device": of.device, "host": of.host, "storage": of.storage},
        "computed": of.computed,
        "lost": {code: tokens for code, tokens, _ in losses(of)},
        "new": of.new,
        "tail": of.tail,
    }


def _work(found: Fleet, engine: str, name: str) -> Work | None:
    return next((each for each in found.work if each.engine == engine and each.name == name), None)


def _times(of: Work | None) -> dict[str, Any] | None:
    if of is None:
        return None
    return {"count": of.count, "failed": of.failed, "p50_ms": round(of.p50_ms, 3), "p99_ms": round(of.p99_ms, 3), "max_ms": round(of.max_ms, 3), "tokens": of.tokens}


def _slow(of: Slow) -> dict[str, Any]:
    return {"engine": of.engine, "rid": of.rid, "span": of.span_id, "ms": round(of.ms, 3), "tokens_asked": of.agreed, "tokens_read": of.done}


def _pair(of: Apart) -> dict[str, Any]:
    return {"first": of.first, "second": of.second, "differ": [{"code": code or None, "field": name, "first": one, "second": other} for code, name, one, other in _fields(of)]}


def _fields(of: Apart) -> list[tuple[str, str, object, object]]:
    return [(f"HC-{code}" if code else "", name, one, other) for code, name, one, other in of.fields]


def _host(engine: str) -> str:
    return engine.partition(":")[0]


def _short(engine: str) -> str:
    """Host and process of an engine's id."""
    return engine.rpartition(":")[0]
