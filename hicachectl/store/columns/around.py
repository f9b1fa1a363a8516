"""What the verdict on some requests needs of a column store, and no more: their spans, what their processes are, and who wrote their pages."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

import msgspec

from hicachectl.store.columns.database import Database, Sql, array
from hicachectl.store.columns.reading import PACKAGE, chosen, counted, finished, resources
from hicachectl.store.recording import Recording, Told, uncollected
from hicachectl.store.span import Span, Value
from tracers import vocabulary as v

ASKED = (v.REQUEST_QUEUED, v.PREFETCH_GATE, v.PREFILL, v.ADMISSION, v.REQUEST_FINISHED)
"""Spans that make a request one: see `model.attempt`."""
ROOTS = (
    v.ENGINE_START, v.ENGINE, v.BACKEND_CREATE, v.BACKEND_CONFIG, v.BACKEND_OPEN, v.BACKEND_WARMUP, v.BACKEND_ATTACH, v.BACKEND_ATTACH_ASKED,
    v.BACKEND_DETACH, v.CONTROLLER_OPEN, v.TREE_OPEN, v.BUFFER_POOL, v.BUFFER_REGISTER, v.BUFFER_UNREGISTER, v.STORE_SETUP, v.STORE_CLOSE, v.WRITE_THREAD,
    v.PREFETCH_THREAD, v.FLUSH, v.RESET, v.STORAGE_CLEAR, v.WARMUP, v.STORE_REPLICA,
)  # fmt: skip
"""Spans of a process, few however long it serves: all of them are read, with what lies in their traces."""
BATCHES = (v.FORWARD, v.EXECUTED, v.LOAD_BACK_START, v.LOAD_BACK_DONE, v.EVICT_DEVICE, v.EVICT_HOST)
"""Spans of a process that come with every batch: those beside the requests are read."""
MOST_RELATED = 500
"""Requests that begin alike and are read in full beside the one that is asked for."""
WORDS_AT_ONCE = 2000
"""Ids in one question, which may name them three times: its text is bounded (`max_query_size`, 256 KiB)."""
TRACES_AT_ONCE = 6000
"""Traces in a question that names them once."""
INTERVALS_AT_ONCE = 200
SLACK_NS = 1_000_000_000
LEDGERS = 4
"""Last ledgers of each process that are read; the last one tells."""

_WRITES = """
SpanName IN $names AND ResourceAttributes[$R_ENGINE] != '' AND (SpanName != $STORE_EXIST OR ParentSpanId IN (SELECT SpanId FROM $TABLE WHERE SpanName = $WRITE_STORE))
AND $among"""
"""Writes of the pages of some requests, and answers that made one unnecessary."""
AMONG_FEW = Sql("hasAny($page_numbers, arrayMap(key -> cityHash64(key), $keys)) $whole")
_AMONG_MANY = Sql("""
arrayExists(key -> key IN (
    SELECT cityHash64(key)
    FROM
    (
        SELECT extractAll(SpanAttributes[if(SpanName = $REQUEST_QUEUED, $PROMPT_PAGE_KEYS, $PAGE_KEYS)], $page_key) AS keys
        FROM $TABLE
        WHERE SpanName IN ($REQUEST_QUEUED, $STORE_EXIST, $STORE_GET, $STORE_PUT) AND TraceId IN $traces
    )
    ARRAY JOIN keys AS key
), $page_numbers)""")
"""A number for a key takes an eighth of its memory, and one that is taken for another brings a span too many, which does no harm."""
MOST_KEYS = 1000
"""Page keys that a question names; if there are more, the database looks for them itself."""
BEGUN_AS_FEW = Sql("hasAny($beginning, arrayMap(key -> cityHash64(key), $begins))")
_BEGUN_AS_MANY = Sql(
    "(substring(SpanAttributes[$FINGERPRINT], 1, $FINGERPRINT_DIGITS) IN $begins OR substring(SpanAttributes[$PROMPT_PAGE_KEYS], 1, $PAGE_KEY_DIGITS) IN $begins)"
)
FEW_BEGINNINGS = 20
"""The index finds a few; of many, each of a part of the table has one, and a set is quicker than a list."""


class _Trace(msgspec.Struct, array_like=True):
    trace: str
    rid: str


@dataclass(slots=True)
class Processes:
    """What is read once, whichever requests are asked about."""

    resources: dict[str, dict[str, Value]]
    told: dict[str, Told]
    spans: list[Span]
    samples: list[Span]

    def begun(self, name: str) -> Recording:
        """A recording of the processes alone; what stands in it may be changed."""
        told = {engine: replace(each) for engine, each in self.told.items()}
        return Recording([name], [*self.spans], {engine: {**each} for engine, each in self.resources.items()}, told=told)


@dataclass(slots=True)
class Slice:
    """The spans that were read for some requests."""

    traces: list[str]
    spans: list[Span] = field(default_factory=list)
    related: int = 0
    """Other requests that begin as one of these does."""
    left_out: int = 0
    """Of those, how many were not read."""


def processes(database: Database) -> Processes:
    """Every process of DATABASE: its own spans, and what the database counts of it."""
    with uncollected():
        roots = list(chosen(database, "$ours AND SpanName IN $roots", roots=ROOTS))
        # What lies in their traces is found by the index of trace ids, in a question of its own.
        roots += _own(database, sorted({span.trace_id for span in roots}), ROOTS, but=True)
        last = "$ours AND SpanName = $LEDGER ORDER BY Timestamp DESC LIMIT $ledgers BY ResourceAttributes[$R_ENGINE]"
        roots += chosen(database, last, ledgers=LEDGERS)
        return Processes(resources(database), counted(database), roots, list(chosen(database, "$ours AND SpanName = $STORE_SAMPLE")))


def traces_of(database: Database, request: str) -> list[str]:
    """Traces of the request whose id is REQUEST, or else of those whose id begins with it; a request may have spans in several."""
    for where in ("rid = $request", "startsWith(rid, $request)"):
        found = list(database.ask(PACKAGE, "requests", _Trace, names=ASKED, where=Sql(where), request=request))
        if found:
            return sorted({each.trace for each in found} | {derived(each.rid) for each in found})
    return []


def derived(rid: str) -> str:
    """The trace that a request has where it has joined no other (tracers/encode.py): work that ends late is there."""
    return hashlib.sha256(rid.encode()).hexdigest()[:32]


def of_requests(database: Database, traces: Sequence[str], known: Processes) -> Slice:
    """Spans of the requests of TRACES, of those that begin alike or share tokens with them, of batches beside them, and the writes of their pages.

    Others that begin alike may have a fault that is the cause of a loss here; others that share tokens may have written them under another key.
    """
    with uncollected():
        found = Slice(list(traces))
        served = _own(database, traces)
        others = sorted({*_related(database, found, served), *_twins(database, traces, served)} - {*traces})
        beside = _own(database, others)
        found.spans = [*served, *_linked(database, served), *beside, *_batches(database, [*served, *beside])]
        found.spans += writes(database, [*traces, *others], _keys((*served, *beside)))
        found.spans += known.samples
        return found


def for_losses(database: Database, traces: Sequence[str], known: Processes, names: Sequence[str], *, twins: bool) -> Slice:
    """What the losses of these requests need alone: spans of NAMES, evictions beside them, the writes of their pages; TWINS where keys may differ."""
    with uncollected():
        found = Slice(list(traces))
        served = _own(database, traces, names)
        others = sorted({*_twins(database, traces, served)} - {*traces}) if twins else []
        for span in served if not twins else ():
            # Nobody can have written the same tokens under another key: there is nothing to compare.
            span.attributes.pop(v.FINGERPRINT, None)
        found.spans = [*served, *_own(database, others), *_evictions(database, served), *known.samples]
        found.spans += writes(database, [*traces, *others])
        return found


def _own(database: Database, traces: Sequence[str], names: Sequence[str] = (), *, but: bool = False) -> list[Span]:
    where = "$ours AND TraceId IN $traces" + (f" AND SpanName {'NOT IN' if but else 'IN'} $names" if names else "")
    return [span for part in _parts(traces) for span in chosen(database, where, traces=part, names=names)]


def _related(database: Database, found: Slice, served: Iterable[Span]) -> list[str]:
    """Traces of the requests that begin as one of those SERVED does, by tokens or by the first page; the latest, up to a limit."""
    own = {*found.traces}
    begins = _begins(served, v.FINGERPRINT, v.FINGERPRINT_DIGITS) | _begins(served, v.PROMPT_PAGE_KEYS, v.PAGE_KEY_DIGITS)
    others = [trace for trace in _begun(database, "family", sorted(begins)[:WORDS_AT_ONCE]) if trace not in own]
    found.related, found.left_out = len(others), max(0, len(others) - MOST_RELATED)
    return others[:MOST_RELATED]


def _twins(database: Database, traces: Sequence[str], served: Iterable[Span]) -> Iterator[str]:
    """Traces of the requests that share tokens with those SERVED."""
    of_trace: dict[str, list[Span]] = {}
    for span in served:
        of_trace.setdefault(span.trace_id, []).append(span)
    for part in _parts(traces):
        begins = _begins((span for trace in part for span in of_trace.get(trace, ())), v.FINGERPRINT, v.FINGERPRINT_DIGITS)
        yield from _begun(database, "twins", sorted(begins), traces=part)


def _begins(spans: Iterable[Span], key: str, digits: int) -> set[str]:
    """How the prompts of SPANS begin: the first digest of an attribute."""
    found = (span.attributes.get(key) for span in spans if span.name == v.REQUEST_QUEUED)
    return {told[:digits] for told in found if isinstance(told, str) and told}


def _begun(database: Database, question: str, begins: list[str], **words: Any) -> list[str]:
    """Traces of those of the requests that begin as BEGINS say that a question is after."""
    if not begins:
        return []
    begun = BEGUN_AS_FEW if len(begins) <= FEW_BEGINNINGS else _BEGUN_AS_MANY
    return [each.trace for each in database.ask(PACKAGE, question, _Trace, begun=begun, begins=array(begins), **words)]


def _linked(database: Database, own: list[Span]) -> Iterator[Span]:
    """Spans that are linked with these, in either direction."""
    here = {span.span_id for span in own}
    wanted = {(link.trace_id, link.span_id) for span in own for link in span.links} - {(span.trace_id, span.span_id) for span in own}
    for part in _parts(sorted(wanted)):
        yield from chosen(database, "$ours AND TraceId IN $traces AND SpanId IN $ids", traces={trace for trace, _ in part}, ids={span for _, span in part})
    for ids in _parts(sorted(here)):
        # Few spans have links: whose they are is asked afterwards, so that the database has nothing else to read.
        yield from (span for span in chosen(database, "arrayExists(link -> link IN $ids, Links.SpanId)", ids=ids) if span.engine)


def writes(database: Database, traces: Sequence[str], keys: set[str] | None = None) -> Iterator[Span]:
    """Every write of the pages of some requests, whoever made it, and every answer that made one unnecessary; KEYS are their pages where these are known."""
    if keys is not None and not keys:
        return
    few = keys is not None and len(keys) <= MOST_KEYS
    named = array(sorted(keys or ()) if few else ())
    names = (v.STORE_PUT, v.WRITE_BACKUP, v.STORE_EXIST)
    for part in [[]] if few else _parts(traces, TRACES_AT_ONCE):
        found = list(chosen(database, _WRITES, names=names, among=AMONG_FEW if few else _AMONG_MANY, keys=named, traces=part))
        yield from found
        for parents in _parts(sorted({span.parent_id for span in found if span.name == v.STORE_EXIST})):
            yield from chosen(database, "SpanName = $WRITE_STORE AND SpanId IN $ids", ids=parents)


def _keys(spans: Iterable[Span]) -> set[str]:
    """Pages of prompts, and those that calls at the store named."""
    found = set[str]()
    for span in spans:
        key = v.PROMPT_PAGE_KEYS if span.name == v.REQUEST_QUEUED else v.PAGE_KEYS if span.name in (v.STORE_EXIST, v.STORE_GET, v.STORE_PUT) else None
        told = span.attributes.get(key) if key is not None else None
        if isinstance(told, str):
            found.update(told[at : at + v.PAGE_KEY_DIGITS] for at in range(0, len(told) - v.PAGE_KEY_DIGITS + 1, v.PAGE_KEY_DIGITS))
    return found


def _batches(database: Database, spans: list[Span]) -> list[Span]:
    """What the processes did for several requests at once while these were served, and what ended later of it."""
    mine = [span for span in spans if span.rid]
    if not mine:
        return []
    engines = sorted({span.engine for span in mine})
    near = _beside(database, mine, BATCHES)
    later = f"ResourceAttributes[$R_ENGINE] IN $engines AND Timestamp >= fromUnixTimestamp64Nano({_lives(mine)[0][0]})"
    run = {(span.engine, span.attributes.get(v.BATCH)) for span in near if span.name == v.EXECUTED}
    batches = {span.attributes[v.BATCH] for span in mine if span.name == v.PREFILL and v.BATCH in span.attributes and (span.engine, span.attributes[v.BATCH]) not in run}
    after: list[Span] = []
    for part in _parts(sorted(batches, key=str)):
        after += chosen(database, f"SpanName = $EXECUTED AND {later} AND SpanAttributes[$BATCH] IN $ids", engines=engines, ids=[str(each) for each in part])
    copied = {(span.engine, node) for span in near if span.name == v.LOAD_BACK_DONE for node in _nodes(span)}
    nodes = {span.attributes[v.NODE] for span in mine if span.name == v.LOAD_BACK and v.NODE in span.attributes and (span.engine, span.attributes[v.NODE]) not in copied}
    for node in sorted(nodes, key=str):
        where = f"SpanName IN $names AND {later} AND has($node_numbers, $node) ORDER BY Timestamp LIMIT 1 BY SpanName, ResourceAttributes[$R_ENGINE]"
        after += chosen(database, where, names=(v.LOAD_BACK_START, v.LOAD_BACK_DONE), engines=engines, node=node)
    return [*near, *after]


def _evictions(database: Database, served: list[Span]) -> list[Span]:
    return _beside(database, served, (v.EVICT_DEVICE,))


def _beside(database: Database, spans: list[Span], names: Sequence[str]) -> list[Span]:
    """Spans of NAMES in the processes of SPANS while the requests of these were served."""
    found = list[Span]()
    for engines, part in product(list(_parts(sorted({span.engine for span in spans}))), _parts(_lives(spans), INTERVALS_AT_ONCE)):
        times = " OR ".join(f"Timestamp BETWEEN fromUnixTimestamp64Nano({begin}) AND fromUnixTimestamp64Nano({end})" for begin, end in part)
        found += chosen(database, f"SpanName IN $names AND ResourceAttributes[$R_ENGINE] IN $engines AND ({times})", names=names, engines=engines)
    return found


def _lives(spans: list[Span]) -> list[tuple[int, int]]:
    """When the requests of SPANS were served, a second on either side, overlaps joined."""
    found: dict[str, tuple[int, int]] = {}
    for span in spans:
        begin, end = found.get(span.trace_id, (span.start_ns, span.end_ns))
        found[span.trace_id] = (min(begin, span.start_ns), max(end, span.end_ns))
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(found.values()):
        if joined and begin - SLACK_NS <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end + SLACK_NS))
        else:
            joined.append((begin - SLACK_NS, end + SLACK_NS))
    return joined


def _nodes(span: Span) -> list[Any]:
    nodes = span.attributes.get(v.NODES)
    return nodes if isinstance(nodes, list) else []


def _parts(words: Iterable[Any], most: int = WORDS_AT_ONCE) -> Iterator[list[Any]]:
    stream = iter(words)
    while part := list(islice(stream, most)):
        yield part


def recording(database: Database, known: Processes, *slices: Slice) -> Recording:
    """A recording of the processes and of what was read beside them."""
    found = known.begun(database.name)
    found.spans += (span for each in slices for span in each.spans)
    return finished(found)
