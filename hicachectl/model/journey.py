"""The journey of one request: how far its prefix came on each rung, from the spans alone."""

from dataclasses import dataclass, field

from hicachectl.model.attempt import Attempt, reason
from hicachectl.model.engine import NO, NOT_ASKED, PARTIAL, UNKNOWN, YES
from hicachectl.model.objects import Batch, batch
from hicachectl.model.take import count, failed, flag, number, numbers
from hicachectl.store import Span
from tracers import vocabulary as v

RUNGS = ("backend_created", "written", "found", "transfer_done", "published", "loaded_back", "prefix_reused")


@dataclass(slots=True)
class Rung:
    """One rung: its value, how many pages were asked and done, and the spans that prove it."""

    state: str
    asked: int = 0
    done: int = 0
    evidence: list[str] = field(default_factory=list)


def rated(asked: int, done: int, evidence: list[str]) -> Rung:
    """Say yes for all, partial for some, no for none; not_asked where nothing was asked."""
    if asked <= 0:
        return Rung(NOT_ASKED, 0, 0, evidence)
    state = YES if done >= asked else (PARTIAL if done > 0 else NO)
    return Rung(state, asked, done, evidence)


@dataclass(slots=True)
class Journey:
    """What one attempt of a request looks like; pages are counted from the start of the prompt."""

    attempt: Attempt
    ranks: list[Attempt]
    """The same attempt on every rank that saw it, this one included."""

    # -- lengths ---------------------------------------------------------------------------------------------------
    @property
    def page(self) -> int:
        """Tokens in a page."""
        return self.attempt.engine.page_size

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return self.attempt.prompt_tokens or 0

    @property
    def reusable_pages(self) -> int:
        """Full pages before the last token's page."""
        return max(0, self.prompt - 1) // self.page

    @property
    def prefix(self) -> int | None:
        """Tokens that the first prefill batch carried as prefix, or None where no prefill was seen."""
        return number(self.attempt.first_prefill, v.PREFIX_TOKENS)

    # -- the gate --------------------------------------------------------------------------------------------------
    @property
    def gate(self) -> Span | None:
        """The first gate: where the KV lay when the request first entered the queue."""
        return self.attempt.first(v.PREFETCH_GATE)

    @property
    def matched_device(self) -> int | None:
        """Tokens found on the device at the gate; where the gate matched nothing, at the first admission."""
        return self._matched(v.MATCHED_DEVICE)

    @property
    def matched_host(self) -> int | None:
        """Tokens found in the host pool only."""
        return self._matched(v.MATCHED_HOST)

    def _matched(self, key: str) -> int | None:
        found = number(self.gate, key)
        return found if found is not None else number(self.attempt.first(v.ADMISSION), key)

    @property
    def matched(self) -> int:
        """Tokens that needed no store."""
        return (self.matched_device or 0) + (self.matched_host or 0)

    @property
    def enqueue(self) -> Span | None:
        """The tree's answer to the first prefetch."""
        return self.attempt.first(v.PREFETCH_ENQUEUE)

    @property
    def gate_reason(self) -> str | None:
        """Why the store was not asked, as the engine's own state showed it."""
        return reason(self.enqueue) or reason(self.gate) or reason(self.attempt.first(v.REQUEST_QUEUED))

    # -- the lookup ------------------------------------------------------------------------------------------------
    @property
    def lookup(self) -> Span | None:
        """The first lookup of this rank."""
        return self.attempt.first(v.PREFETCH_LOOKUP)

    @property
    def lookup_calls(self) -> list[Batch]:
        """The existence calls of that lookup."""
        return [batch(span) for span in self.attempt.inside(self.lookup, v.STORE_EXIST)]

    @property
    def asked_pages(self) -> int:
        """Pages given to the lookup."""
        return count(self.lookup, v.ASKED_TOKENS) // self.page

    @property
    def hit(self) -> int | None:
        """Contiguous tokens found, the least over the ranks; None where a rank's lookup raised."""
        hits = [number(each.first(v.PREFETCH_LOOKUP), v.HIT_TOKENS) for each in self.ranks if each.first(v.PREFETCH_LOOKUP) is not None]
        known = [each for each in hits if each is not None]
        return min(known) if known else None

    @property
    def lookup_code(self) -> int | None:
        """The negative code with which the lookup's existence call failed at its first bad object, or None."""
        for call in self.lookup_calls:
            code = number(call.span, v.FIRST_BAD_CODE)
            if code is not None and code < 0:
                return code
        return None

    @property
    def accepted(self) -> bool:
        """Whether the pages found were handed to the I/O thread."""
        return self.transfer is not None or self.finish is not None

    # -- the transfer ----------------------------------------------------------------------------------------------
    @property
    def transfer(self) -> Span | None:
        """The first transfer of this rank."""
        return self.attempt.first(v.PREFETCH_TRANSFER)

    @property
    def finish(self) -> Span | None:
        """When the scheduler took what had arrived."""
        return self.attempt.first(v.PREFETCH_FINISH)

    @property
    def transfer_calls(self) -> list[Batch]:
        """The get calls of that transfer."""
        return [batch(span) for span in self.attempt.inside(self.transfer, v.STORE_GET)]

    @property
    def agreed(self) -> int:
        """Tokens that all ranks agreed to read."""
        return number(self.transfer, v.AGREED_TOKENS) or count(self.finish, v.AGREED_TOKENS)

    @property
    def arrived(self) -> int | None:
        """Tokens that had arrived when the scheduler took them, the least over the ranks."""
        done = [number(each.first(v.PREFETCH_FINISH), v.DONE_TOKENS) for each in self.ranks if each.first(v.PREFETCH_FINISH) is not None]
        known = [each for each in done if each is not None]
        return min(known) if known else number(self.transfer, v.DONE_TOKENS)

    @property
    def publish(self) -> Span | None:
        """The insert of what arrived into the host tree."""
        return self.attempt.first(v.PREFETCH_PUBLISH)

    # -- load back -------------------------------------------------------------------------------------------------
    @property
    def admission(self) -> Span | None:
        """The attempt that admitted the request, else the last one."""
        tries = self.attempt.all(v.ADMISSION)
        return next((span for span in tries if flag(span, v.ADMITTED)), tries[-1] if tries else None)

    @property
    def load_ask(self) -> Span | None:
        """The load-back of the admission that counts: the last before the first prefill."""
        before = self.attempt.first_prefill
        asks = [span for span in self.attempt.all(v.LOAD_BACK_ASK) if before is None or span.start_ns <= before.start_ns]
        return asks[-1] if asks else None

    @property
    def load(self) -> Span | None:
        """The tree's own call inside that load-back."""
        inside = self.attempt.inside(self.load_ask, v.LOAD_BACK)
        return inside[-1] if inside else None

    def copy(self) -> tuple[Span | None, Span | None]:
        """The copies from host to device that carried this request's node, and their acknowledgement."""
        node, ask = number(self.load, v.NODE), self.load_ask
        if node is None or ask is None:
            return None, None
        engine = self.attempt.engine
        begun = next((span for span in engine.all(v.LOAD_BACK_START) if span.start_ns >= ask.start_ns and node in numbers(span, v.NODES)), None)
        if begun is None:
            return None, None
        done = next((span for span in engine.all(v.LOAD_BACK_DONE) if span.start_ns >= begun.start_ns and node in numbers(span, v.NODES)), None)
        return begun, done

    # -- execution -------------------------------------------------------------------------------------------------
    @property
    def executed(self) -> Span | None:
        """The result of the first prefill batch, back from the device."""
        wanted = number(self.attempt.first_prefill, v.BATCH)
        if wanted is None:
            return None
        return next((span for span in self.attempt.engine.all(v.EXECUTED) if number(span, v.BATCH) == wanted), None)


def found_rung(journey: Journey) -> Rung:
    """The lookup's contiguous hit from the first page asked, agreed over the ranks."""
    lookup = journey.lookup
    if lookup is None:
        if journey.gate is None or (journey.enqueue is not None and not journey.gate_reason):
            return Rung(UNKNOWN)
        return Rung(NOT_ASKED, 0, 0, _ids(journey.gate, journey.enqueue))
    evidence = _ids(lookup, *(call.span for call in journey.lookup_calls))
    if failed(lookup) or (journey.lookup_code is not None and not journey.hit):
        return Rung(NO, journey.asked_pages, 0, evidence)
    if journey.hit is None:
        return Rung(UNKNOWN, journey.asked_pages, 0, evidence)
    return rated(journey.asked_pages, journey.hit // journey.page, evidence)


def transfer_rung(journey: Journey) -> Rung:
    """Pages whose objects all came with as many bytes as the page has, of those found and handed on."""
    if not journey.accepted:
        entered = journey.lookup is not None or journey.gate is not None
        return Rung(NOT_ASKED if entered and found_rung(journey).state != UNKNOWN else UNKNOWN, 0, 0, _ids(journey.lookup))
    asked = journey.agreed // journey.page
    calls = journey.transfer_calls
    evidence = _ids(journey.transfer, journey.finish, *(call.span for call in calls))
    if not calls:
        # Nothing below the storage interface was seen: another backend, or lost spans.
        return Rung(UNKNOWN if journey.arrived else NO, asked, 0, evidence)
    whole = {page.page_key for call in calls for page in call.pages if page.whole}
    done = min(len(whole), (journey.arrived or 0) // journey.page)
    return rated(asked, done, evidence)


def publish_rung(journey: Journey) -> Rung:
    """Pages inserted into the host tree, of those transferred; pages that were there already count."""
    if not journey.accepted:
        return Rung(transfer_rung(journey).state)
    arrived = journey.arrived
    if journey.finish is None:
        return Rung(UNKNOWN if arrived is None else NO, (arrived or 0) // journey.page, 0, _ids(journey.transfer))
    if not arrived:
        return Rung(NOT_ASKED, 0, 0, _ids(journey.finish))
    if journey.publish is None:
        return Rung(UNKNOWN, arrived // journey.page, 0, _ids(journey.finish))
    inserted = 0 if failed(journey.publish) else count(journey.publish, v.TOKENS)
    return rated(arrived // journey.page, inserted // journey.page, _ids(journey.publish))


def load_rung(journey: Journey) -> Rung:
    """Pages that matched only on the host and were copied to the device, with the copy acknowledged."""
    ask = journey.load_ask
    if ask is None:
        admission = journey.admission
        if admission is None:
            return Rung(UNKNOWN)
        waiting = count(admission, v.MATCHED_HOST)
        return rated(waiting // journey.page, 0, _ids(admission)) if waiting else Rung(NOT_ASKED, 0, 0, _ids(admission))
    promised, loaded = count(ask, v.MATCHED_HOST), count(ask, v.LOADED_TOKENS)
    begun, done = journey.copy()
    evidence = _ids(ask, journey.load, begun, done)
    if loaded and done is None and journey.executed is None:
        return Rung(UNKNOWN, promised // journey.page, 0, evidence)
    return rated(max(promised, loaded) // journey.page, loaded // journey.page, evidence)


def reuse_rung(journey: Journey) -> Rung:
    """Full pages that the first prefill batch carried as prefix and ran with."""
    prefill, executed = journey.attempt.first_prefill, journey.executed
    if prefill is None:
        return Rung(UNKNOWN)
    prefix = journey.prefix or 0
    evidence = _ids(prefill, executed)
    if prefix and executed is None:
        return Rung(UNKNOWN, journey.reusable_pages, 0, evidence)
    if prefix == 0:
        return Rung(NO, journey.reusable_pages, 0, evidence)
    return rated(journey.reusable_pages, prefix // journey.page, evidence)


def _ids(*spans: Span | None) -> list[str]:
    return [span.span_id for span in spans if span is not None]
