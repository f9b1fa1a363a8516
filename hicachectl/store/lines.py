"""Bytes to spans: one line is one OTLP/JSON export request, of ours or of a collector's file exporter."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from hicachectl.store.span import UNREADABLE, Span, Value, attributes_of, normal_id
from tracers.vocabulary import R_ENGINE


class _Resource(Struct, gc=False):
    attributes: Raw = Raw(b"[]")


class _ScopeSpans(Struct, gc=False):
    spans: list[Span] = []


class _ResourceSpans(Struct, gc=False):
    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] = []  # noqa: N815 - the names of OTLP/JSON


class _Line(Struct, gc=False):
    resourceSpans: list[_ResourceSpans] | UnsetType = UNSET  # noqa: N815
    resourceMetrics: Raw | UnsetType = UNSET  # noqa: N815
    resourceLogs: Raw | UnsetType = UNSET  # noqa: N815


_MOST_SHARED = 1 << 20
"""Strings remembered at most: a tail may follow an engine for weeks."""


class BrokenLineError(ValueError):
    """The line is no OTLP/JSON export request."""


_decode = msgspec.json.Decoder(_Line, strict=False).decode


class Decoder:
    """Decodes lines; remembers the resources it has met and shares strings that come again.

    `resources` holds, per engine id, what its resource says; what only becomes known later (ranks) is added.
    """

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Value]] = {}
        self._engines: dict[bytes, str] = {}
        self._shared: dict[str, str] = {}

    def spans(self, line: bytes | memoryview) -> list[Span]:
        """The spans of one line, [] where it carries metrics or logs; BrokenLineError where it cannot be read."""
        try:
            decoded: Any = _decode(line)
        except UNREADABLE as error:
            raise BrokenLineError(str(error)) from error
        if decoded.resourceSpans is UNSET:
            if decoded.resourceMetrics is UNSET and decoded.resourceLogs is UNSET:
                raise BrokenLineError("no resourceSpans")
            return []
        found: list[Span] = []
        for group in decoded.resourceSpans:
            engine = self._engine(group.resource)
            for scope in group.scopeSpans:
                self._finish(scope.spans, engine)
                found += scope.spans
        return found

    def _engine(self, resource: _Resource | None) -> str:
        if resource is None:
            return ""
        text = bytes(resource.attributes)
        engine = self._engines.get(text)
        if engine is None:
            attributes = attributes_of(text)
            engine = str(attributes.get(R_ENGINE, ""))
            self._engines[text] = engine
            if engine:
                self.resources.setdefault(engine, {}).update(attributes)
        return engine

    def _finish(self, spans: list[Span], engine: str) -> None:
        if len(self._shared) > _MOST_SHARED:
            self._shared.clear()
        share = self._shared.setdefault
        for span in spans:
            if len(span.span_id) != 16:
                _repair_ids(span)
            span.engine = engine
            span.name = share(span.name, span.name)
            span.trace_id = share(span.trace_id, span.trace_id)

    def owned(self, spans: list[Span]) -> None:
        """Look for the request id of each span now, while its line is at hand; ids that come again are shared."""
        share = self._shared.setdefault
        ids = {span.span_id: span.span_id for span in spans}
        given = ids.get
        for span in spans:
            parent = span.parent_id
            if parent:
                span.parent_id = given(parent, parent)
            rid = span.rid
            if rid is not None:
                span.owner = share(rid, rid)


def _repair_ids(span: Span) -> None:
    span.trace_id, span.span_id = normal_id(span.trace_id), normal_id(span.span_id)
    span.parent_id = normal_id(span.parent_id)
