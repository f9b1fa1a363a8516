"""The journey of one request: how far its prefix came on each rung, from the spans alone."""

from dataclasses import dataclass, field, fields

from hicachectl.model.attempt import Attempt, reason
from hicachectl.model.engine import LOOKUP_THREAD, NO, NOT_ASKED, PARTIAL, UNKNOWN, YES
from hicachectl.model.objects import Batch
from hicachectl.model.once import once
from hicachectl.model.pages import Write
from hicachectl.model.ranks import numbers_of
from hicachectl.model.take import count, failed, flag, number, strings, text
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
    sure: bool = False
    """The spans themselves say so: it does not rest on one that is not there."""


def rated(asked: int, done: int, evidence: list[str], *, sure: bool = False) -> Rung:
    """Say yes for all, partial for some, no for none; not_asked where nothing was asked."""
    if asked <= 0:
        return Rung(NOT_ASKED, 0, 0, evidence, sure)
    state = YES if done >= asked else (PARTIAL if done > 0 else NO)
    return Rung(state, asked, done, evidence, sure)


@dataclass(eq=False)
class Journey:
    """What one attempt of a request looks like; pages are counted from the start of the prompt."""

    attempt: Attempt
    ranks: list[Attempt]
    """The same attempt on every rank that saw it, this one included."""
    writes: list[tuple[range, list[Write]]] | None = None
    """Pages asked of the rung `written`, those together that share their writes, once they were looked up."""

    @once
    def on_ranks(self) -> "list[Journey]":
        """This journey, and the same one on every other rank."""
        return [self, *(Journey(each, self.ranks) for each in self.ranks if each is not self.attempt)]

    def forget(self) -> None:
        """Let go of what was worked out and decoded, here and on every rank: it comes back when it is asked for."""
        # A mapping that has grown stays large when it is emptied: it is made anew.
        self.__dict__ = {name: vars(self)[name] for name in _GIVEN}
        self.writes = None
        for rank in self.ranks:
            rank.forget()

    # -- lengths ---------------------------------------------------------------------------------------------------
    @once
    def page(self) -> int:
        """Tokens in a page."""
        return self.attempt.engine.page_size

    @once
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return self.attempt.prompt_tokens or 0

    @once
    def reusable_pages(self) -> int:
        """Full pages before the last token's page."""
        return max(0, self.prompt - 1) // self.page

    @once
    def prefix(self) -> int | None:
        """Tokens that the first prefill batch carried as prefix, or None where no prefill was seen."""
        return number(self.attempt.first_prefill, v.PREFIX_TOKENS)

    # -- the gate --------------------------------------------------------------------------------------------------
    @once
    def gate(self) -> Span | None:
        """The first gate: where the KV lay when the request first entered the queue."""
        return self.attempt.first(v.PREFETCH_GATE)

    @once
    def matched_device(self) -> int | None:
        """Tokens found on the device at the gate; where the gate matched nothing, at the first admission."""
        return self._matched(v.MATCHED_DEVICE)

    @once
    def matched_host(self) -> int | None:
        """Tokens found in the host pool only."""
        return self._matched(v.MATCHED_HOST)

    def _matched(self, key: str) -> int | None:
        found = number(self.gate, key)
        return found if found is not None else number(self.attempt.first(v.ADMISSION), key)

    @once
    def matched(self) -> int:
        """Tokens that needed no store when the request first entered the queue."""
        return (self.matched_device or 0) + (self.matched_host or 0)

    @once
    def enqueue(self) -> Span | None:
        """The tree's answer to the prefetch that counts."""
        return self._latest(v.PREFETCH_ENQUEUE, self.lookup)

    @once
    def gate_reason(self) -> str | None:
        """Why the store was not asked, as the engine's own state showed it."""
        return reason(self.enqueue) or reason(self._latest(v.PREFETCH_GATE, self.lookup)) or reason(self.attempt.first(v.REQUEST_QUEUED))

    @property
    def halted(self) -> Span | None:
        """The half-way detach by which the lookup of this request had no thread any more."""
        halt = self.attempt.engine.halted(self.enqueue.end_ns) if self.enqueue is not None else None
        # Lookups that were queued while the thread still hung are taken before it ends (0.5.14 prefetch_thread_func).
        return halt if halt is not None and self.lookup is None and LOOKUP_THREAD not in strings(halt, v.NAMES) else None

    # -- the lookup ------------------------------------------------------------------------------------------------
    @once
    def lookup(self) -> Span | None:
        """The lookup that counts: of what was transferred, else the last before the first prefill (from 0.5.23 on a miss is looked up again)."""
        operation = number(self.transfer, v.OPERATION)
        lookups = self.attempt.all(v.PREFETCH_LOOKUP)
        same = next((span for span in lookups if operation is not None and number(span, v.OPERATION) == operation), None)
        return same or self._latest(v.PREFETCH_LOOKUP)

    @once
    def looked_from(self) -> int:
        """Where the pages begin that the lookup asked for: what the gate before it had matched."""
        gate = self._latest(v.PREFETCH_GATE, self.lookup)
        if gate is None or gate is self.gate:
            return self.matched
        return count(gate, v.MATCHED_DEVICE) + count(gate, v.MATCHED_HOST)

    @once
    def lookup_calls(self) -> list[Batch]:
        """The existence calls of that lookup."""
        return [self.attempt.call(span) for span in self.attempt.inside(self.lookup, v.STORE_EXIST)]

    @once
    def pools_found(self) -> Span | None:
        """How far each pool reached in that lookup, where the model has more than one."""
        calls = self.attempt.inside(self.lookup, v.PREFETCH_POOLS)
        return calls[-1] if calls else None

    @property
    def short_pool(self) -> str | None:
        """The pool beside KV that shortened what was found."""
        return text(self.pools_found, v.POOL_SHORT)

    @once
    def asked_pages(self) -> int:
        """Pages given to the lookup."""
        return count(self.lookup, v.ASKED_TOKENS) // self.page

    @once
    def hit(self) -> int | None:
        """Contiguous tokens found, the least over the ranks; None where a rank's lookup raised."""
        known = [hit for hit in self.hits.values() if hit is not None]
        return min(known) if known else None

    @once
    def hits(self) -> dict[int, int | None]:
        """Rank -> contiguous tokens that it found."""
        return self._over_ranks(v.PREFETCH_LOOKUP, self.lookup, v.HIT_TOKENS)

    @once
    def lookup_code(self) -> int | None:
        """The negative code with which the lookup's existence call failed at its first bad object, or None."""
        for call in self.lookup_calls:
            code = number(call.span, v.FIRST_BAD_CODE)
            if code is not None and code < 0:
                return code
        return None

    @once
    def accepted(self) -> bool:
        """Whether the pages found were handed to the I/O thread, or the scheduler ended the prefetch before they could be."""
        return self.transfer is not None or self.agreed > 0 or self.cut_off or (self.finish is not None and self.enough)

    @property
    def cut_off(self) -> bool:
        """Whether the policy gave the prefetch up before its lookup had answered, and enough was found (from 0.5.23 on)."""
        return self.enough and reason(self.revoke) == "R17"

    @once
    def enough(self) -> bool:
        """Whether enough was found for a prefetch, be it read or not."""
        threshold = number(self.lookup, v.THRESHOLD)
        return self.hit is not None and threshold is not None and self.hit >= threshold

    @once
    def revoke(self) -> Span | None:
        """Where the engine gave the prefetch up before it read a page."""
        return self._latest(v.PREFETCH_REVOKE)

    # -- the transfer ----------------------------------------------------------------------------------------------
    @once
    def transfer(self) -> Span | None:
        """The transfer of this rank that the first prefill could have had."""
        return self._latest(v.PREFETCH_TRANSFER)

    @once
    def finish(self) -> Span | None:
        """When the scheduler took what had arrived."""
        operation = number(self.transfer or self.lookup, v.OPERATION)
        ends = self.attempt.all(v.PREFETCH_FINISH)
        return next((span for span in ends if number(span, v.OPERATION) == operation), None) if operation is not None else self._latest(v.PREFETCH_FINISH)

    @once
    def transfer_calls(self) -> list[Batch]:
        """The get calls of that transfer."""
        return [self.attempt.call(span) for span in self.attempt.inside(self.transfer, v.STORE_GET)]

    @once
    def agreed(self) -> int:
        """Tokens that all ranks agreed to read, and had host room for; 0 where the prefetch ended before they could."""
        return number(self.transfer, v.AGREED_TOKENS) or count(self.finish, v.AGREED_TOKENS)

    @once
    def handed(self) -> int:
        """Tokens that were found, and read or to be read: the least hit where the prefetch ended before the ranks agreed."""
        return self.agreed or self.hit or 0

    @once
    def arrived(self) -> int | None:
        """Tokens that had arrived when the scheduler took them, the least over the ranks."""
        known = [tokens for tokens in self._over_ranks(v.PREFETCH_FINISH, self.finish, v.DONE_TOKENS).values() if tokens is not None]
        return min(known) if known else number(self.transfer, v.DONE_TOKENS)

    @once
    def publish(self) -> Span | None:
        """The insert of what arrived into the host tree."""
        return self._latest(v.PREFETCH_PUBLISH)

    @once
    def settled(self) -> str | None:
        """Code of the first reason that the engine itself gave for tokens of this prefetch that were of no use."""
        since = self.lookup.start_ns if self.lookup is not None else self.attempt.start_ns
        given = [span for span in self.attempt.all(v.PREFETCH_SETTLE) if span.start_ns >= since]
        # Whatever is given up is also told as dropped; the reason before it is the one that counts.
        return next((code for span in given if (code := reason(span)) is not None), None)

    def _latest(self, name: str, until: Span | None = None) -> Span | None:
        """The last span of this name that began before UNTIL, or before the first prefill; where none did, the first of all."""
        spans = self.attempt.all(name)
        end = until or self.attempt.first_prefill
        before = [span for span in spans if end is None or span.start_ns <= end.start_ns]
        return before[-1] if before else (spans[0] if spans else None)

    def _over_ranks(self, name: str, own: Span | None, key: str) -> dict[int, int | None]:
        return numbers_of(self.attempt, self.ranks, name, own, key)

    # -- load back -------------------------------------------------------------------------------------------------
    @once
    def admission(self) -> Span | None:
        """The attempt that admitted the request, else the last one."""
        tries = self.attempt.all(v.ADMISSION)
        return next((span for span in tries if flag(span, v.ADMITTED)), tries[-1] if tries else None)

    @once
    def load_ask(self) -> Span | None:
        """The load-back of the admission that counts: the last before the first prefill."""
        before = self.attempt.first_prefill
        asks = [span for span in self.attempt.all(v.LOAD_BACK_ASK) if before is None or span.start_ns <= before.start_ns]
        return asks[-1] if asks else None

    @once
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
        begun = engine.of_node(v.LOAD_BACK_START, node, ask.start_ns)
        return begun, engine.of_node(v.LOAD_BACK_DONE, node, begun.start_ns) if begun is not None else None

    # -- execution -------------------------------------------------------------------------------------------------
    @once
    def executed(self) -> Span | None:
        """The result of the first prefill batch, back from the device."""
        wanted = number(self.attempt.first_prefill, v.BATCH)
        return self.attempt.engine.executed.get(wanted) if wanted is not None else None


_GIVEN = tuple(each.name for each in fields(Journey))


def found_rung(journey: Journey) -> Rung:
    """The lookup's contiguous hit from the first page asked, agreed over the ranks."""
    lookup = journey.lookup
    if lookup is None:
        return _not_looked_up(journey)
    evidence = _ids(lookup, *(call.span for call in journey.lookup_calls))
    if failed(lookup) or (journey.lookup_code is not None and not journey.hit):
        return Rung(NO, journey.asked_pages, 0, evidence, sure=True)
    if journey.hit is None:
        return Rung(UNKNOWN, journey.asked_pages, 0, evidence)
    return rated(journey.asked_pages, journey.hit // journey.page, evidence, sure=True)


def _not_looked_up(journey: Journey) -> Rung:
    """Of a request whose lookup was not seen: not asked for where it is known why."""
    if reason(journey.revoke) == "R17":
        # Ended by the policy before its turn: the engine does not look up what is over (0.5.23 prefetch_thread_func).
        return Rung(NOT_ASKED, 0, 0, _ids(journey.enqueue, journey.revoke))
    if journey.halted is not None:
        return Rung(NOT_ASKED, 0, 0, _ids(journey.enqueue, journey.halted), sure=True)
    if journey.gate is None or (journey.enqueue is not None and not journey.gate_reason):
        return Rung(UNKNOWN)
    return Rung(NOT_ASKED, 0, 0, _ids(journey.gate, journey.enqueue), sure=journey.gate_reason is not None)


def transfer_rung(journey: Journey) -> Rung:
    """Pages whose objects all came with as many bytes as the page has, of those found and handed on."""
    if not journey.accepted:
        found = found_rung(journey)
        # A request that was prefilled, and of which no transfer was seen, had none, whatever its lookup said.
        prefilled = journey.attempt.first_prefill is not None
        decided = prefilled or (found.state != UNKNOWN and not journey.enough)
        entered = journey.lookup is not None or journey.gate is not None
        enough = number(journey.lookup, v.THRESHOLD)
        below = journey.hit is not None and enough is not None and journey.hit < enough
        sure = below or (found.state == NOT_ASKED and found.sure)
        return Rung(NOT_ASKED if entered and decided else UNKNOWN, 0, 0, found.evidence[:2], sure)
    asked = journey.handed // journey.page
    calls = journey.transfer_calls
    evidence = _ids(journey.transfer, journey.finish, journey.revoke if journey.cut_off else None, *(call.span for call in calls))
    if not calls:
        # Nothing below the storage interface was seen: another backend, or lost spans.
        return Rung(UNKNOWN if journey.arrived else NO, asked, 0, evidence)
    told = {name for call in calls for name in call.names}
    # A page of which any object failed, in whatever pool, is no page.
    spoilt = {name for call in calls for name in call.spoilt}
    done = min(len(told - spoilt), (journey.arrived or 0) // journey.page)
    return rated(asked, done, evidence, sure=len(told) >= asked and journey.finish is not None)


def publish_rung(journey: Journey) -> Rung:
    """Pages inserted into the host tree, of those transferred; pages that were there already count."""
    if not journey.accepted:
        transfer = transfer_rung(journey)
        return Rung(transfer.state, 0, 0, transfer.evidence, transfer.sure)
    arrived = journey.arrived
    if journey.cut_off and not arrived:
        return Rung(NOT_ASKED, 0, 0, _ids(journey.revoke), sure=True)
    if journey.finish is None:
        return Rung(UNKNOWN if arrived is None else NO, (arrived or 0) // journey.page, 0, _ids(journey.transfer))
    if not arrived:
        return Rung(NOT_ASKED, 0, 0, _ids(journey.finish), sure=True)
    if journey.publish is None:
        return Rung(UNKNOWN, arrived // journey.page, 0, _ids(journey.finish))
    inserted = 0 if failed(journey.publish) else count(journey.publish, v.TOKENS)
    return rated(arrived // journey.page, inserted // journey.page, _ids(journey.publish), sure=True)


def load_rung(journey: Journey) -> Rung:
    """Pages that matched only on the host and were copied to the device, with the copy acknowledged."""
    ask = journey.load_ask
    if ask is None:
        admission = journey.admission
        if admission is None:
            return Rung(UNKNOWN)
        waiting = count(admission, v.MATCHED_HOST)
        return rated(waiting // journey.page, 0, _ids(admission)) if waiting else Rung(NOT_ASKED, 0, 0, _ids(admission), sure=flag(admission, v.ADMITTED))
    promised, loaded = count(ask, v.MATCHED_HOST), count(ask, v.LOADED_TOKENS)
    begun, done = journey.copy()
    evidence = _ids(ask, journey.load, begun, done)
    if loaded and done is None and journey.executed is None:
        return Rung(UNKNOWN, promised // journey.page, 0, evidence)
    return rated(max(promised, loaded) // journey.page, loaded // journey.page, evidence, sure=True)


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
        return Rung(NO, journey.reusable_pages, 0, evidence, sure=True)
    return rated(journey.reusable_pages, prefix // journey.page, evidence, sure=True)


def _ids(*spans: Span | None) -> list[str]:
    return [span.span_id for span in spans if span is not None]
