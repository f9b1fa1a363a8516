"""Spans of one request in one engine, one attempt each time its id enters the queue anew."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain

from hicachectl.model.engine import PROCESS_SPANS, Engine
from hicachectl.model.names import digest_names, page_names
from hicachectl.model.objects import Batch, batch
from hicachectl.model.once import once
from hicachectl.model.take import count, flag, keys, number, text
from hicachectl.store import Recording, Span
from tracers import vocabulary as v

WARMUP_TOKENS = 16
"""The warm-up prompts of SGLang's HTTP server are shorter (`entrypoints/http_server.py`, _execute_server_warmup)."""


@dataclass(eq=False)
class Attempt:
    """One journey of a request through one engine."""

    rid: str
    number: int
    engine: Engine
    own: list[Span] = field(default_factory=list)
    """Spans that carry its id, in time order."""
    children: dict[str, list[Span]] = field(default_factory=dict)
    """Span id -> spans whose parent it is, shared by all attempts of a recording."""
    entered: bool = False
    """Whether it was seen to enter the queue, to be prefilled or to end: what enters the queue after that is another attempt."""

    @once
    def spans(self) -> dict[str, list[Span]]:
        """Its spans by name, in time order."""
        found: dict[str, list[Span]] = {}
        for span in self.own:
            found.setdefault(span.name, []).append(span)
        return found

    def forget(self) -> None:
        """Let go of what was worked out and decoded: it comes back when it is asked for. A recording may have millions of requests."""
        # A mapping that has grown stays large when it is emptied: it is made anew.
        own = self.__dict__
        self.__dict__ = {name: own[name] for name in _GIVEN}
        for span in self.own:
            span.forget()

    def first(self, name: str) -> Span | None:
        """The oldest span of this name, or None."""
        found = self.spans.get(name)
        return found[0] if found else None

    def last(self, name: str) -> Span | None:
        """The newest span of this name, or None."""
        found = self.spans.get(name)
        return found[-1] if found else None

    def all(self, name: str) -> list[Span]:
        """Every span of this name in time order."""
        return self.spans.get(name, [])

    def inside(self, span: Span | None, name: str) -> list[Span]:
        """Spans of this name that SPAN's call made on its thread."""
        return [child for child in self.children.get(span.span_id, ()) if child.name == name] if span is not None else []

    @once
    def start_ns(self) -> int:
        """When the request entered the queue, or when it is first seen."""
        queued = self.first(v.REQUEST_QUEUED)
        return queued.start_ns if queued is not None else min((span.start_ns for span in self.own), default=0)

    @once
    def first_prefill(self) -> Span | None:
        """The first prefill of this request: later chunks and re-prefills change no token account. None where it is not in the recording."""
        return next((span for span in self.all(v.PREFILL) if flag(span, v.FIRST_CHUNK) and not flag(span, v.RETRACTED)), None)

    @once
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt."""
        for name in (v.REQUEST_QUEUED, v.PREFILL, v.REQUEST_FINISHED):
            found = number(self.first(name), v.PROMPT_TOKENS)
            if found is not None:
                return found
        return None

    @once
    def page_keys(self) -> list[str]:
        """Page keys of the full pages of the prompt, in this engine's page size."""
        return keys(self.first(v.REQUEST_QUEUED), v.PROMPT_PAGE_KEYS)

    @property
    def engine_reasons(self) -> list[str]:
        """Why the engine said that tokens of a prefetch were of no use, in its own words."""
        return [told for span in self.all(v.PREFETCH_SETTLE) if (told := text(span, v.ENGINE_REASON)) is not None]

    @once
    def present(self) -> frozenset[Hashable]:
        """Names of pages that lookups before the first prefill found with every object of this rank."""
        return frozenset(chain.from_iterable(call.whole for call in self._lookups))

    @once
    def absent(self) -> frozenset[Hashable]:
        """Names of pages that lookups before the first prefill were told are not there, with every object of this rank."""
        told = [call for call in self._lookups if call.failed_code is None]
        return frozenset(name for call in told for name in call.bad) - self.present

    @once
    def _lookups(self) -> list[Batch]:
        end = self.first_prefill
        asked = [span for span in self.all(v.PREFETCH_LOOKUP) if end is None or span.start_ns <= end.start_ns]
        return [self.call(call) for span in asked for call in self.inside(span, v.STORE_EXIST)]

    def call(self, span: Span) -> Batch:
        """The objects of a call that this request made; read once, whoever asks for them."""
        found = self._calls.get(span.span_id)
        if found is None:
            found = self._calls[span.span_id] = batch(span)
        return found

    @once
    def _calls(self) -> dict[str, Batch]:
        return {}

    @once
    def key_prefix(self) -> str:
        """What stood before the page key in this engine's object keys when the request came."""
        return self.engine.prefix_at(self.start_ns)

    @once
    def key_suffixes(self) -> tuple[str, ...]:
        """What stood behind it, one for each KV object of a page."""
        return self.engine.suffixes_at(self.start_ns)

    @once
    def page_names(self) -> tuple[Hashable, ...]:
        """The same as `Pages` names them."""
        return page_names(text(self.first(v.REQUEST_QUEUED), v.PROMPT_PAGE_KEYS) or "")

    @once
    def fingerprint(self) -> list[str]:
        """Prefix fingerprint of the prompt, a digest for each block."""
        return keys(self.first(v.REQUEST_QUEUED), v.FINGERPRINT, v.FINGERPRINT_DIGITS)

    @once
    def blocks(self) -> Sequence[Hashable]:
        """The same as `Fingerprints` names them."""
        return digest_names(text(self.first(v.REQUEST_QUEUED), v.FINGERPRINT) or "")


_GIVEN = tuple(each.name for each in fields(Attempt))


_ENTERING = frozenset({v.REQUEST_QUEUED, v.PREFILL, v.REQUEST_FINISHED})


def attempts(recording: Recording, engines: dict[str, Engine]) -> list[Attempt]:
    """Every attempt of every request in time order; health checks and an HTTP server's own warm-up are left out."""
    children: dict[str, list[Span]] = defaultdict(list)
    current: dict[tuple[str, str], Attempt] = {}
    found: list[Attempt] = []
    for span in recording.walk():
        if span.parent_id:
            children[span.parent_id].append(span)
        rid = span.rid
        if rid is None:
            continue
        key = (span.engine, rid)
        attempt = current.get(key)
        if attempt is None or (span.name == v.REQUEST_QUEUED and attempt.entered and not flag(span, v.RETRACTED)):
            engine = engines.get(span.engine)
            if engine is None or rid.startswith(v.HEALTH_RID_PREFIX):
                continue
            attempt = Attempt(rid, attempt.number + 1 if attempt is not None else 0, engine, children=children)
            current[key] = attempt
            found.append(attempt)
        if span.name in _ENTERING:
            attempt.entered = True
        attempt.own.append(span)
    asked = [attempt for attempt in found if _is_request(attempt)]
    whole = [attempt for attempt in asked if not _is_cut(attempt)]
    return [attempt for attempt in whole if not _is_warmup(attempt, engines)]


def _is_cut(attempt: Attempt) -> bool:
    """Whether it had begun before the tracers were switched on in an engine that ran: what is left of it would be taken for all of it."""
    engine = attempt.engine
    if engine.attached_ms is None or "request.queued" in engine.blind:
        return False
    queued = next((span for span in attempt.own if span.name == v.REQUEST_QUEUED), None)
    if queued is not None and not flag(queued, v.RETRACTED):
        return False
    engine.left_out += 1
    return True


def _is_request(attempt: Attempt) -> bool:
    """Work that only carries a request's id (a late backup) is no attempt of its own."""
    return attempt.entered or any(span.name in (v.PREFETCH_GATE, v.ADMISSION, v.REQUEST_FINISHED) for span in attempt.own)


def _is_warmup(attempt: Attempt, engines: dict[str, Engine]) -> bool:
    """Whether it came while an HTTP server warmed up its engine, and is as short as what is sent then."""
    parent = next((engine for engine in engines.values() if (engine.host, engine.pid) == attempt.engine.parent), None)
    warmups = parent.all(v.WARMUP) if parent is not None else []
    return any(span.start_ns <= attempt.start_ns <= span.end_ns for span in warmups) and (attempt.prompt_tokens or 0) <= WARMUP_TOKENS


def reason(span: Span | None) -> str | None:
    """The skip reason that the engine's own state showed at this call."""
    return text(span, v.REASON)


__all__ = ["PROCESS_SPANS", "Attempt", "attempts", "count", "reason"]
