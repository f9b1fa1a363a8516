"""Every process of a recording: its own spans, and which processes are ranks of one server."""

import re
from collections.abc import Iterable

from hicachectl.model.engine import NOTED, PROCESS_SPANS, Engine
from hicachectl.model.take import count
from hicachectl.store import Recording, Span
from hicachectl.whole import whole
from tracers import vocabulary as v

_NONE_UNCOVERED = re.compile(rb'\{"key":"' + re.escape(v.UNCOVERED.encode()) + rb'","value":\{"intValue":"0"\}\}')

_TAKEN = PROCESS_SPANS | {v.STORE_PUT, v.STORE_GET}


def engines(recording: Recording) -> dict[str, Engine]:
    """Every process of RECORDING with its own spans, in the order in which they began."""
    ids: Iterable[str] = {*recording.resources, *recording.ledgers}
    found = {id_: Engine(id_, recording.resources.get(id_, {}), recording.ledgers.get(id_)) for id_ in sorted(ids, key=_begin)}
    have = recording.have
    for each in found.values():
        each.missing = max(0, each.ledger.written - have.get(each.id, 0)) if each.ledger is not None else 0
    for span in recording.walk():
        engine = found.get(span.engine)
        if engine is not None:
            engine.seen.add(span.name)
            if span.name in _TAKEN:
                _take(engine, span)
    for name, told in (recording.told or {}).items():
        if name in found:
            found[name].seen |= told.names
            found[name].uncovered_puts, found[name].uncovered_gets = told.uncovered_puts, told.uncovered_gets
    _group(found.values())
    return found


def _take(engine: Engine, span: Span) -> None:
    """Keep what an engine is asked about."""
    name = span.name
    if name in PROCESS_SPANS:
        engine.spans[name].append(span)
        if name in NOTED:
            engine.note(span)
    elif name == v.STORE_PUT:
        engine.uncovered_puts += _uncovered(span)
        if span.rid is None:
            engine.spans[name].append(span)
    else:
        engine.uncovered_gets += _uncovered(span)


def _uncovered(span: Span) -> int:
    """Buffers of a put or get that no registered range covers."""
    # Nearly always none, and then nothing has to be decoded.
    if _NONE_UNCOVERED.search(span.raw):
        return 0
    found = count(span, v.UNCOVERED)
    span.forget()
    return found


def _group(found: Iterable[Engine]) -> None:
    """Name the server of each process: ranks that one parent started for one replica, each rank once.

    A parent may start several engines after each other, and many replicas at once: neither are ranks of one another.
    """
    open_: dict[tuple[object, ...], tuple[str, set[tuple[int, int]]]] = {}
    for engine in found:
        engine.family = engine.id
        size = engine.tp_size * engine.pp_size
        if engine.parent is None or size == 1:
            continue
        replica = (engine.parent, engine.number(v.DP_RANK), engine.tp_size, engine.pp_size)
        rank = (engine.tp_rank, engine.pp_rank)
        name, ranks = open_.get(replica, (engine.id, set()))
        if rank in ranks or len(ranks) == size:
            name, ranks = engine.id, set()
        engine.family = name
        open_[replica] = (name, ranks | {rank})


def _begin(engine: str) -> tuple[int, str]:
    start = engine.rpartition(":")[2]
    return (whole(start) or 0, engine)
