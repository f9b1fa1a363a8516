"""Runs every rule over a recording: requests with their losses, findings deduplicated, causes first, consequences folded."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hicachectl.diagnosis.codes import canonical
from hicachectl.diagnosis.finding import MOST_EVIDENCE, Finding, order
from hicachectl.diagnosis.places import place
from hicachectl.diagnosis.rule import Case
from hicachectl.diagnosis.rules import LOSSES, RULES
from hicachectl.diagnosis.times import times
from hicachectl.diagnosis.verdict import verdict
from hicachectl.model.account import Account, account
from hicachectl.model.journey import Journey, Rung
from hicachectl.model.world import World, world
from hicachectl.store import Recording

MISSED = frozenset({"HC-R12", "HC-R13"})

FOLDS: dict[str, frozenset[str]] = {
    "HC-R13": frozenset({"HC-R12"}),
    "HC-E06": MISSED,
    "HC-E101": MISSED | {"HC-R101"},
    "HC-R101": MISSED,
    "HC-A19": frozenset({"HC-R05"}),
    "HC-K01": frozenset({"HC-R12", "HC-R04"}),
    "HC-K02": frozenset({"HC-R12", "HC-R04", "HC-R11"}),
    "HC-K03": frozenset({"HC-R12", "HC-R04"}),
    "HC-K11": frozenset({"HC-R15"}),
    "HC-R16": frozenset({"HC-R17", "HC-R18"}),
    "HC-R102": frozenset({"HC-R17", "HC-R18"}),
    "HC-L08": frozenset({"HC-R19"}),
    "HC-W02": MISSED,
    "HC-W13": MISSED,
    "HC-W17": MISSED,
}
"""Cause -> codes that merely follow from it, for the same request."""


@dataclass(slots=True)
class Verdict:
    """One request, judged."""

    journey: Journey
    ladder: dict[str, Rung]
    account: Account
    lost: list[Finding]
    times: dict[str, float]
    sentence: str = ""

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
    seen = world(recording)
    found = Diagnosis(seen)
    raised: list[Finding] = [finding for rule in RULES if rule.of_world is not None for finding in rule.of_world(seen)]
    for journey in seen.journeys:
        judged = _judged(journey, seen)
        found.requests.append(judged)
        case = Case(journey, judged.account, seen)
        raised += judged.lost
        raised += [finding for rule in RULES if rule.of_case is not None for finding in rule.of_case(case)]
    _blame_writes(raised, found.requests)
    for each in raised:
        each.certain = each.certain and all(seen.certain(seen.engines[engine]) for engine in each.engines if engine in seen.engines)
    found.raised = folded(raised)
    found.findings = merged(found.raised)
    for judged in found.requests:
        judged.sentence = verdict(judged.journey, judged.ladder, judged.account, judged.lost)
    return found


def _blame_writes(raised: Iterable[Finding], requests: Sequence[Verdict]) -> None:
    """A write that failed is a cause for the requests that asked later for its pages and lost some: they are named with it."""
    losers = [(each.journey.attempt.start_ns, each.journey.attempt, frozenset(each.journey.attempt.page_keys)) for each in requests if each.lost]
    for fault in raised:
        if not fault.unwritten:
            continue
        for start_ns, attempt, asked in losers:
            if start_ns > fault.time_ns and not fault.unwritten.isdisjoint(asked):
                fault.causal = True
                fault.rids = list(dict.fromkeys([*fault.rids, attempt.rid]))
                fault.engines = list(dict.fromkeys([*fault.engines, attempt.engine.id]))


def _judged(journey: Journey, seen: World) -> Verdict:
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
        lost.append(why)
    return Verdict(journey, seen.ladder(journey), own, sorted(lost, key=order), times(journey))


def folded(raised: Sequence[Finding]) -> list[Finding]:
    """Take out what follows from a cause of the same request, or of its engine, and name it under the cause."""
    of_request: dict[str, list[Finding]] = defaultdict(list)
    of_engine: dict[str, list[Finding]] = defaultdict(list)
    for each in sorted(raised, key=order):
        if each.code in FOLDS:
            for rid in each.rids:
                of_request[rid].append(each)
            for engine in () if each.rids else each.engines:
                of_engine[engine].append(each)
    kept = []
    for each in raised:
        near = [*(cause for rid in each.rids for cause in of_request[rid]), *(cause for engine in each.engines for cause in of_engine[engine])]
        causes = sorted((cause for cause in near if each.rids and each.code in FOLDS[cause.code] and (cause.causal or not each.causal)), key=order)
        if causes:
            if each.code not in causes[0].folded:
                causes[0].folded.append(each.code)
        else:
            kept.append(each)
    return kept


def merged(raised: Iterable[Finding]) -> list[Finding]:
    """One finding for each code: requests, engines and evidence gathered, the first one's arguments kept; causes first."""
    by_code: dict[tuple[str, bool], Finding] = {}
    for each in raised:
        first = by_code.get((each.code, each.causal))
        if first is None:
            by_code[each.code, each.causal] = replace(
                each, evidence=list(each.evidence), rids=list(each.rids), engines=list(each.engines), folded=list(each.folded)
            )
        else:
            _gather(first, each)
    for code in {code for code, causal in by_code if causal}:
        beside = by_code.pop((code, False), None)
        if beside is not None:
            _gather(by_code[code, True], beside)
    return sorted(by_code.values(), key=order)


def _gather(first: Finding, other: Finding) -> None:
    first.rids = list(dict.fromkeys([*first.rids, *other.rids]))
    first.engines = list(dict.fromkeys([*first.engines, *other.engines]))
    first.evidence = list(dict.fromkeys([*first.evidence, *other.evidence]))[:MOST_EVIDENCE]
    first.folded = list(dict.fromkeys([*first.folded, *other.folded]))
    first.certain = first.certain and other.certain
    first.serving = first.serving and other.serving
    first.tokens += other.tokens


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
        rids = {each.journey.attempt.rid for each in requests}
        engines = {each.journey.attempt.engine.id for each in requests}
        raised = [each for each in raised if rids & set(each.rids) or (not each.rids and engines & set(each.engines))]
    return requests, merged(raised)
