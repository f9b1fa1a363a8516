"""A running account of a recording that grows: requests, tokens by tier, pages moved. An approximation; `explain` is exact."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hicachectl.store.span import Span, Value
from tracers import vocabulary as v

_MOST_WAITING = 100_000
"""Requests remembered between their match and their prefill."""


@dataclass(slots=True)
class Summary:
    """What has been seen so far; tokens and pages are those of rank 0, so that ranks are not added up."""

    engines: set[str] = field(default_factory=set)
    """Ids of the processes that run a scheduler."""
    spans: int = 0
    queued: int = 0
    requests: int = 0
    """Requests of which the first prefill was seen."""
    device: int = 0
    host: int = 0
    storage: int = 0
    computed: int = 0
    pages_written: int = 0
    pages_read: int = 0
    unsent: dict[str, int] = field(default_factory=dict)
    """Engine id -> spans that did not reach the collector."""
    findings: Mapping[str, int] | None = None
    """Findings so far by level, None where they are not counted."""
    _matched: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    _page_size: dict[str, int] = field(default_factory=dict)
    _other_ranks: set[str] = field(default_factory=set)

    def add(self, spans: Iterable[Span], resources: Mapping[str, Mapping[str, Value]]) -> None:
        """Take SPANS into account; RESOURCES are those of their engines."""
        for engine, told in resources.items():
            if told.get(v.R_TP_RANK, 0) != 0 or told.get(v.R_PP_RANK, 0) != 0:
                self._other_ranks.add(engine)
        for span in spans:
            self.spans += 1
            take = _TAKES.get(span.name)
            if take is not None:
                take(self, span)

    def _start(self, span: Span) -> None:
        self.engines.add(span.engine)
        self._sized(span)
        if _number(span, v.TP_RANK) or _number(span, v.PP_RANK):
            self._other_ranks.add(span.engine)

    def _sized(self, span: Span) -> None:
        size = _number(span, v.PAGE_SIZE)
        if size:
            self._page_size[span.engine] = size

    def _queue(self, span: Span) -> None:
        self._sized(span)
        if span.engine not in self._other_ranks and _counts(span):
            self.queued += 1

    def _gate(self, span: Span) -> None:
        if v.MATCHED_DEVICE in span.attributes and _counts(span):
            if len(self._matched) >= _MOST_WAITING:
                self._matched.clear()
            matched = (_number(span, v.MATCHED_DEVICE), _number(span, v.MATCHED_HOST))
            self._matched[span.engine, _rid(span)] = matched

    def _prefill(self, span: Span) -> None:
        matched = self._matched.pop((span.engine, _rid(span)), None)
        if span.engine in self._other_ranks or not _counts(span) or span.attributes.get(v.FIRST_CHUNK) is False:
            return
        prefix = _number(span, v.PREFIX_TOKENS)
        device, host = matched or (
            prefix - _number(span, v.CLAIM_HOST) - _number(span, v.CLAIM_STORAGE),
            _number(span, v.CLAIM_HOST),
        )
        device = max(0, min(prefix, device))
        host = min(prefix - device, host)
        self.requests += 1
        self.device, self.host, self.storage = (
            self.device + device,
            self.host + host,
            self.storage + prefix - device - host,
        )
        prompt = _number(span, v.PROMPT_TOKENS)
        self.computed += max(0, prompt - prefix) if prompt else _number(span, v.EXTEND_TOKENS)

    def _finish(self, span: Span) -> None:
        self._matched.pop((span.engine, _rid(span)), None)

    def _write(self, span: Span) -> None:
        self.pages_written += self._pages(span, v.WRITTEN_TOKENS)

    def _told(self, span: Span) -> None:
        unsent = _number(span, v.EXPORT_DROPPED)
        if unsent:
            self.unsent[span.engine] = unsent

    def _read(self, span: Span) -> None:
        self.pages_read += self._pages(span, v.DONE_TOKENS)

    def _pages(self, span: Span, key: str) -> int:
        if span.engine in self._other_ranks:
            return 0
        return _number(span, key) // self._page_size.get(span.engine, 1)


_TAKES = {
    v.ENGINE_START: Summary._start,  # noqa: SLF001 - the class's own table
    v.ENGINE: Summary._start,  # noqa: SLF001
    v.CONTROLLER_OPEN: Summary._sized,  # noqa: SLF001
    v.REQUEST_QUEUED: Summary._queue,  # noqa: SLF001
    v.PREFETCH_GATE: Summary._gate,  # noqa: SLF001
    v.PREFILL: Summary._prefill,  # noqa: SLF001
    v.REQUEST_FINISHED: Summary._finish,  # noqa: SLF001
    v.WRITE_STORE: Summary._write,  # noqa: SLF001
    v.PREFETCH_TRANSFER: Summary._read,  # noqa: SLF001
    v.LEDGER: Summary._told,  # noqa: SLF001
}


def _rid(span: Span) -> str:
    return str(span.attributes.get(v.RID, ""))


def _counts(span: Span) -> bool:
    """Whether it belongs to a request that a user sent, at its first way through the queue."""
    return not _rid(span).startswith(v.HEALTH_RID_PREFIX) and span.attributes.get(v.RETRACTED) is not True


def _number(span: Span, key: str) -> int:
    value = span.attributes.get(key, 0)
    return value if isinstance(value, int) else 0
