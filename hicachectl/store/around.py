"""The spans of one request: those that carry its id, and what was done for it under no name."""

from collections.abc import Iterator
from dataclasses import dataclass

from hicachectl.store.recording import Recording
from hicachectl.store.span import Span
from tracers import vocabulary as v


def rid_of(span: Span) -> str:
    """The request id that a span carries, '' where it serves no request."""
    return span.rid or ""


def around(recording: Recording, rid: str) -> list[Span]:
    """Spans of the request RID in time order, with its batches, the loads it waited for, linked spans, and all that lies below them."""
    own = [span for span in recording.spans if rid_of(span) == rid]
    traces = {span.trace_id for span in own}
    wanted = {span.span_id for span in own}
    wanted |= {span.span_id for span in recording.spans if span.trace_id in traces and not rid_of(span)}
    wanted |= {link.span_id for span in own for link in span.links}
    wanted |= {span.span_id for span in _unnamed(recording, _Shared.of(own))}
    # A parent ends after its children, but begins before them: one pass in time order finds whole branches.
    for span in recording.spans:
        if span.span_id not in wanted and rid_of(span) in ("", rid):
            below = span.parent_id and span.parent_id in wanted
            if below or any(link.span_id in wanted for link in span.links):
                wanted.add(span.span_id)
    return [span for span in recording.spans if span.span_id in wanted]


_NOBODY = frozenset[str]()


def all_around(recording: Recording) -> dict[str, list[Span]]:
    """`around` of every request of RECORDING, in a few passes for all of them together."""
    own: dict[str, list[Span]] = {}
    members: dict[str, frozenset[str]] = {}
    """Span id -> requests to which the span belongs."""
    traces: dict[str, set[str]] = {}
    alones: dict[str, frozenset[str]] = {}
    """One set for all spans of a request that belong to nothing else."""
    for span in recording.walk():
        rid = rid_of(span)
        if rid:
            own.setdefault(rid, []).append(span)
            traces.setdefault(span.trace_id, set()).add(rid)
            alone = alones.setdefault(rid, frozenset((rid,)))
            for each in (span.span_id, *(link.span_id for link in span.links)):
                members[each] = members[each] | alone if each in members else alone
    for span, rid in _unnamed_of_all(recording, own):
        members[span.span_id] = members.get(span.span_id, _NOBODY) | {rid}
    for span in recording.walk():
        if span.trace_id in traces and not rid_of(span):
            members[span.span_id] = members.get(span.span_id, _NOBODY) | traces[span.trace_id]
    found: dict[str, list[Span]] = {rid: [] for rid in own}
    for span in recording.walk():
        for rid in _belongs(span, members):
            found[rid].append(span)
    return found


def _belongs(span: Span, members: dict[str, frozenset[str]]) -> frozenset[str]:
    """The requests of a span, and, unless it has one of its own, those of what lies above it and of what it links to."""
    mine = members.get(span.span_id, _NOBODY)
    above = {rid for each in (span.parent_id, *(link.span_id for link in span.links)) if each for rid in members.get(each, ())}
    rid = rid_of(span)
    added = (above & {rid} if rid else above) - mine
    if added:
        mine = members[span.span_id] = mine | added
    return mine


def _unnamed_of_all(recording: Recording, own: dict[str, list[Span]]) -> Iterator[tuple[Span, str]]:
    """What `_unnamed` gives, for every request."""
    of_batch: dict[tuple[str, int], list[str]] = {}
    of_node: dict[str, dict[tuple[str, int], list[tuple[str, int]]]] = {v.LOAD_BACK_START: {}, v.LOAD_BACK_DONE: {}}
    for rid, spans in own.items():
        shared = _Shared.of(spans)
        for batch in shared.batches:
            of_batch.setdefault(batch, []).append(rid)
        for key, asked in shared.nodes.items():
            for waiting in of_node.values():
                waiting.setdefault(key, []).append((rid, asked))
    for span in recording.walk():
        if span.name in (v.FORWARD, v.EXECUTED):
            number = span.attributes.get(v.BATCH)
            yield from ((span, rid) for rid in (of_batch.get((span.engine, number), ()) if isinstance(number, int) else ()))
        elif span.name in of_node:
            yield from ((span, rid) for rid in _taken(span, of_node[span.name]))
        span.forget()


def _taken(span: Span, waiting: dict[tuple[str, int], list[tuple[str, int]]]) -> set[str]:
    """Requests that waited for a node of SPAN, and had asked for it by then: each waits no longer."""
    nodes, found = span.attributes.get(v.NODES), set[str]()
    for node in nodes if isinstance(nodes, list) else ():
        still = waiting.get((span.engine, node), [])
        found |= {rid for rid, asked in still if asked <= span.end_ns}
        if still:
            waiting[span.engine, node] = [(rid, asked) for rid, asked in still if asked > span.end_ns]
    return found


@dataclass(frozen=True, slots=True)
class _Shared:
    """What ties a request to spans that serve several at once, per engine: batches, and times of its load-backs by node."""

    batches: frozenset[tuple[str, int]]
    nodes: dict[tuple[str, int], int]
    """(engine, node) -> when the request first asked for it."""

    @classmethod
    def of(cls, own: list[Span]) -> "_Shared":
        batches, nodes = set[tuple[str, int]](), dict[tuple[str, int], int]()
        for span in own:
            if span.name == v.PREFILL:
                batch = span.attributes.get(v.BATCH)
                if isinstance(batch, int):
                    batches.add((span.engine, batch))
            elif span.name == v.LOAD_BACK:
                node = span.attributes.get(v.NODE)
                if isinstance(node, int):
                    nodes.setdefault((span.engine, node), span.start_ns)
        return cls(frozenset(batches), nodes)


def _unnamed(recording: Recording, shared: _Shared) -> Iterator[Span]:
    """Batches handed to the device, and copies of nodes that the request asked for: each first one after it asked."""
    open_nodes = {name: dict(shared.nodes) for name in (v.LOAD_BACK_START, v.LOAD_BACK_DONE)}
    for span in recording.spans:
        if span.name in (v.FORWARD, v.EXECUTED):
            if (span.engine, span.attributes.get(v.BATCH)) in shared.batches:
                yield span
        elif span.name in open_nodes:
            nodes = span.attributes.get(v.NODES)
            asked = open_nodes[span.name]
            keys = [(span.engine, node) for node in nodes] if isinstance(nodes, list) else []
            mine = [key for key in keys if key in asked and asked[key] <= span.end_ns]
            for key in mine:
                del asked[key]
            if mine:
                yield span
