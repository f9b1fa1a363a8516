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
            batch, node = span.attributes.get(v.BATCH), span.attributes.get(v.NODE)
            if span.name == v.PREFILL and isinstance(batch, int):
                batches.add((span.engine, batch))
            if span.name == v.LOAD_BACK and isinstance(node, int):
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
