"""Runs every rule over a recording: requests with their losses, findings deduplicated, causes first, consequences folded."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hicachectl.diagnosis.codes import canonical
from hicachectl.diagnosis.finding import Finding, order
from hicachectl.diagnosis.gathering import Loser, blame_writes, concerning, folded, merged
from hicachectl.diagnosis.places import GAP, MISMATCH, place
from hicachectl.diagnosis.rule import Case, OfCase
from hicachectl.diagnosis.rules import LOSSES, RULES
from hicachectl.diagnosis.rules.gap import written_before
from hicachectl.diagnosis.times import times
from hicachectl.diagnosis.verdict import verdict
from hicachectl.model.account import Account, account
from hicachectl.model.journey import Journey, Rung
from hicachectl.model.ranks import apart
from hicachectl.model.world import World, world
from hicachectl.store import Recording
from tracers import vocabulary as v


@dataclass(slots=True)
class Verdict:
    """One request, judged."""

    journey: Journey
    ladder: dict[str, Rung]
    account: Account
    lost: list[Finding]
    times: dict[str, float]
    ranks: list[dict[str, float | int | None]]
    sentence: str

    @property
    def lost_tokens(self) -> int:
        """Tokens of every loss."""
        return sum(each.tokens for each in self.lost)

    @property
    def new(self) -> int:
        """Tokens of full pages that nobody is known to have written."""
        return self.account.computed - self.lost_tokens - self.account.tail


@dataclass(slots=True)
class Diagnosis:
    """A recording, judged."""

    world: World
    requests: list[Verdict] = field(default_factory=list)
    raised: list[Finding] = field(default_factory=list)
    """What every rule said of each request and engine, without what follows from a cause of the same request."""
    findings: list[Finding] = field(default_factory=list)
    """The same, one for each code."""


def diagnose(recording: Recording) -> Diagnosis:
    """Judge every request and the engines; the same recording gives the same result, to the order of every list."""
    return judge(world(recording))


def judge(seen: World) -> Diagnosis:
    """The same, of a recording that was read as a whole."""
    found = Diagnosis(seen)
    judging = Judging(found.world)
    found.requests = list(judging.requests(found.world.journeys))
    found.raised = judging.raised()
    found.findings = merged(found.raised)
    return found


_BETWEEN = 64


class Judging:
    """Judges requests one after the other, and keeps of each only what the findings of the whole need."""

    def __init__(self, seen: World) -> None:
        self.world = seen
        self.found: list[Finding] = []
        for rule in RULES:
            self.found += rule.of_world(seen) if rule.of_world is not None else ()
            seen.recording.release()
        self.losers: list[Loser] = []
        self._by_names: dict[tuple[tuple[str, ...], frozenset[str]], Sequence[OfCase]] = {}

    def requests(self, journeys: Iterable[Journey], *, forget: bool = False) -> Iterator[Verdict]:
        """The verdict on each of JOURNEYS, as soon as it is known; to FORGET it once it was taken keeps memory small."""
        for number, journey in enumerate(journeys):
            one = judged(journey, self.world)
            case = Case(journey, one.account, self.world, one.times)
            self.found += one.lost
            self.found += [finding for judge in self._asked(journey) for finding in judge(case)]
            if one.lost:
                attempt = journey.attempt
                self.losers.append(Loser(attempt.rid, attempt.engine.id, attempt.start_ns, tuple(attempt.page_keys)))
            yield one
            if forget:
                journey.forget()
                self.world.prints.forget()
                if number % _BETWEEN == 0:
                    self.world.recording.release()

    def _asked(self, journey: Journey) -> Sequence[OfCase]:
        """The rules that may have something to say of a request, by the names of the spans that there are of it."""
        there = frozenset[str]().union(*(rank.spans for rank in journey.ranks))
        engines = tuple(rank.engine.id for rank in journey.ranks)
        asked = self._by_names.get((engines, there))
        if asked is None:
            every = there.union(*(rank.engine.spans for rank in journey.ranks))
            asked = self._by_names[engines, there] = [rule.of_case for rule in RULES if rule.of_case is not None and every.issuperset(rule.needs)]
        return asked

    def raised(self) -> list[Finding]:
        """What was said of each request and engine, without what follows from a cause of the same request."""
        blame_writes(self.found, self.losers)
        for each in self.found:
            _weigh(each, self.world)
        return folded(self.found)


def _weigh(each: Finding, seen: World) -> None:
    """What is known to be missing makes a finding uncertain."""
    each.certain = each.certain and all(seen.certain(seen.engines[engine]) for engine in each.engines if engine in seen.engines)


def judged(journey: Journey, seen: World) -> Verdict:
    """The ladder, the token account and the losses of one request, each loss with its code."""
    own, lost = losses(journey, seen)
    ladder = seen.ladder(journey)
    return Verdict(journey, ladder, own, lost, times(journey), apart(journey), verdict(journey, ladder, own, lost))


def losses(journey: Journey, seen: World) -> tuple[Account, list[Finding]]:
    """The token account of one request, and its losses."""
    own = account(journey, seen)
    case = Case(journey, own, seen)
    places: dict[str, list[int]] = defaultdict(list)
    for page in sorted({*own.lost_pages, *own.mismatched}):
        places[place(case, page)].append(page)
    lost = []
    for name, pages in places.items():
        why = LOSSES[name].judge(case, tuple(pages))
        why.tokens = len(pages) * journey.page
        why.causal = True
        _weigh(why, seen)
        _doubt(why, case, pages)
        lost.append(why)
    lost.sort(key=order)
    return own, lost


def _doubt(why: Finding, case: Case, pages: Sequence[int]) -> None:
    """Pages that are only known to have been written through another master may lie in another store: then nothing was lost."""
    engine, twins = case.journey.attempt.engine, case.account.mismatched
    if not case.world.several_masters or (case.journey.hit and place(case, pages[0]) not in (MISMATCH, GAP)):
        return
    writes = [write for page in pages if page in twins for write in twins[page].writes]
    writes += written_before(case, tuple(page for page in pages if page not in twins))
    theirs = case.world.elsewhere(engine, writes)
    if theirs is not None:
        why.certain = False
        why.args |= {"written_through": theirs, "asked_through": engine.text(v.MASTER)}


def select(found: Diagnosis, request: str | None, code: str | None) -> tuple[list[Verdict], list[Finding]]:
    """Requests whose id is REQUEST or begins with it, and that CODE concerns; findings of those and of their engines, with their own arguments."""
    raised = found.raised
    if code is not None:
        raised = [each for each in raised if canonical(code) in (each.code, *each.folded)]
    named = {rid for each in raised for rid in each.rids}
    exact = any(each.journey.attempt.rid == request for each in found.requests)
    requests = [
        each
        for each in found.requests
        if (request is None or each.journey.attempt.rid == request or (not exact and each.journey.attempt.rid.startswith(request)))
        and (code is None or each.journey.attempt.rid in named or any(loss.code == canonical(code) for loss in each.lost))
    ]
    if request is not None:
        raised = concerning(raised, {(each.journey.attempt.rid, each.journey.attempt.engine.id) for each in requests})
    return requests, merged(raised)
