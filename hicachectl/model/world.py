"""A recording as a whole: engines, requests on all their ranks, pages, and the store's own counters."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hicachectl.model.attempt import Attempt, attempts
from hicachectl.model.engine import NO, NOT_ASKED, PARTIAL, UNKNOWN, YES, Engine
from hicachectl.model.engines import engines
from hicachectl.model.fingerprints import Fingerprints, fingerprints
from hicachectl.model.journey import Journey, Rung, found_rung, load_rung, publish_rung, reuse_rung, transfer_rung
from hicachectl.model.namespaces import named
from hicachectl.model.pages import Pages, Write, pages
from hicachectl.model.take import count, flag, number, strings, text
from hicachectl.model.written import written_rung
from hicachectl.store import Recording, Span
from tracers import vocabulary as v
from tracers.points import ALL

NEEDS: dict[str, set[str]] = defaultdict(set)
"""Rung -> hook points without which it is unknown."""
for _point in ALL:
    for _rung in _point.rungs:
        NEEDS[_rung].add(_point.id)


_BETWEEN = 64


@dataclass(slots=True)
class World:
    """Everything that rules may look at."""

    recording: Recording
    engines: dict[str, Engine]
    journeys: list[Journey]
    pages: Pages
    prints: Fingerprints
    samples: list[Span]
    salted: list[Journey]
    """Requests that have an extra key."""
    several_masters: bool
    """Engines were given more than one address of a master."""

    def ladder(self, journey: Journey) -> dict[str, Rung]:
        """The seven rungs of a journey, unknown where a point that a rung needs is blind or spans were lost."""
        rungs = {
            "backend_created": self._backend(journey),
            "written": written_rung(journey, self.pages),
            "found": found_rung(journey),
            "transfer_done": transfer_rung(journey),
            "published": publish_rung(journey),
            "loaded_back": load_rung(journey),
            "prefix_reused": reuse_rung(journey),
        }
        engines_seen = [rank.engine for rank in journey.ranks]
        blind = {point for engine in engines_seen for point in engine.blind}
        whole = all(engine.whole for engine in engines_seen)
        if any(_is_cut(rank) for rank in journey.ranks):
            whole = False
        for name, rung in rungs.items():
            # Where spans are missing, that one is not there proves nothing: only what a span says counts.
            unproved = rung.state in (NO, NOT_ASKED, PARTIAL) and not (rung.sure and rung.evidence)
            if blind & NEEDS[name] or (unproved and not whole):
                rung.state = UNKNOWN
        return rungs

    def _backend(self, journey: Journey) -> Rung:
        """The backend of every rank of this request's server, as it was when the request came."""
        family = journey.attempt.engine.family
        ranks = [engine for engine in self.engines.values() if engine.scheduler and engine.family == family] or [journey.attempt.engine]
        states = [engine.backend_state(journey.attempt.start_ns) for engine in ranks]
        values = {state for state, _ in states}
        evidence = [each for _, ids in states for each in ids]
        if len(ranks) < journey.attempt.engine.tp_size * journey.attempt.engine.pp_size and values == {YES}:
            return Rung(UNKNOWN, len(ranks), len(ranks), evidence)
        if len(values) == 1:
            return Rung(next(iter(values)), len(ranks), len(ranks), evidence, sure=True)
        return Rung(PARTIAL if YES in values and NO in values else UNKNOWN, len(ranks), sum(state == YES for state, _ in states), evidence)

    def _samples(self, engine: Engine) -> list[Span]:
        """Samples of an engine's own master."""
        return [span for span in self.samples if text(span, v.MASTER) in (_master(engine), None)]

    def elsewhere(self, engine: Engine, writes: Sequence[Write]) -> str | None:
        """The address of another master than an engine's own, where all of WRITES went through such; None otherwise, or where an address is not known.

        Two addresses may be of one store (a name and a number), so that this makes a loss doubtful and no more.
        """
        own, theirs = _master(engine), [_master(self.engines[write.engine]) if write.engine in self.engines else None for write in writes]
        return theirs[0] if own is not None and theirs and None not in theirs and own not in theirs else None

    def counted(self, key: str, engine: Engine, since_ns: int, until_ns: int) -> int | None:
        """By how much a counter of an engine's master grew between two times, or None without samples on both sides."""
        samples = self._samples(engine)
        before = [span for span in samples if span.end_ns <= since_ns] or samples[:1]
        after = [span for span in samples if span.start_ns >= until_ns] or samples[-1:]
        first, last = number(before[-1], key) if before else None, number(after[0], key) if after else None
        if first is None or last is None or before[-1] is after[0]:
            return None
        return max(0, last - first) if last >= first else last

    def forgotten(self, engine: Engine, since_ns: int, until_ns: int) -> tuple[Span, Span] | None:
        """The samples between which the store lost most of its objects at once, without evicting them and without a clear."""
        samples = self._samples(engine)
        for before, after in pairwise(samples):
            had, has = number(before, v.SAMPLE_KEYS), number(after, v.SAMPLE_KEYS)
            if had is None or has is None or after.end_ns < since_ns or before.start_ns > until_ns or has * 2 >= had:
                continue
            evicted = (number(after, v.SAMPLE_EVICTED) or 0) - (number(before, v.SAMPLE_EVICTED) or 0)
            cleared = any(before.start_ns <= time <= after.end_ns for time in self.pages.clears)
            if not cleared and (evicted < 0 or had - has > evicted):
                return before, after
        return None

    def owner(self, key: object) -> str | None:
        """Where the master said that an object lies, or None where nobody asked."""
        return next((text(span, v.REPLICA) for span in self.recording.spans if span.name == v.STORE_REPLICA and key in strings(span, v.OBJECT_KEYS)), None)

    def certain(self, engine: Engine) -> bool:
        """Whether nothing of this engine's part of the recording, nor of those beside it, is known to be missing."""
        return engine.whole and not self.recording.missing and not self.recording.broken_lines


def _master(engine: Engine) -> str | None:
    return text(engine.last(v.BACKEND_CONFIG), v.MASTER)


def _is_cut(rank: Attempt) -> bool:
    """Whether an attach may have ended before all was done for this request: the engine goes on, unseen."""
    if rank.engine.attached_ms is None:
        return False
    if rank.first_prefill is None or rank.first(v.REQUEST_FINISHED) is None:
        return True
    copied = {number(span, v.NODE) for span in rank.all(v.WRITE_BACKUP) if count(span, v.WRITTEN_TOKENS)}
    queued = {number(span, v.OPERATION) for span in rank.all(v.WRITE_ENQUEUE) if count(span, v.PAGES) and not flag(span, v.BACKUP_SKIP)}
    return bool(copied - {number(span, v.NODE) for span in rank.all(v.WRITE_HOST_DONE)} or queued - {number(span, v.OPERATION) for span in rank.all(v.WRITE_STORE)})


def world(recording: Recording) -> World:
    """Read a recording as a whole."""
    found = engines(recording)
    tries = attempts(recording, found)
    ranks: dict[tuple[str, str, int], list[Attempt]] = defaultdict(list)
    for attempt in tries:
        ranks[(attempt.engine.family, attempt.rid, attempt.number)].append(attempt)
    journeys = [
        Journey(attempt, ranks[(attempt.engine.family, attempt.rid, attempt.number)])
        for attempt in tries
        if attempt.engine.tp_rank == 0 and attempt.engine.pp_rank == 0
    ]
    samples = [span for span in recording.spans if span.name == v.STORE_SAMPLE]
    salted = named(_walk(journeys, recording))
    prints = fingerprints((journey.attempt for journey in journeys), recording.release, salted=bool(salted))
    return World(recording, found, journeys, pages(recording), prints, samples, salted, len({_master(engine) for engine in found.values()} - {None}) > 1)


def _walk(journeys: list[Journey], recording: Recording) -> Iterator[Journey]:
    """JOURNEYS one after the other; what looking into each took of memory is given back on the way."""
    for place, journey in enumerate(journeys):
        yield journey
        if place % _BETWEEN == 0:
            recording.release()
