"""Runs every rule over a recording: requests with their losses, findings deduplicated, causes first, consequences folded."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

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

FOLDS: dict[str, frozenset[str]] = {
    "HC-R13": frozenset({"HC-R12"}),
    "HC-E06": frozenset({"HC-R12", "HC-R13"}),
    "HC-E101": frozenset({"HC-R12", "HC-R13"}),
    "HC-R101": frozenset({"HC-R12", "HC-R13"}),
    "HC-A19": frozenset({"HC-R05"}),
    "HC-K01": frozenset({"HC-R12", "HC-R04"}),
    "HC-K02": frozenset({"HC-R12", "HC-R04"}),
    "HC-K03": frozenset({"HC-R12", "HC-R04"}),
    "HC-K11": frozenset({"HC-R15"}),
    "HC-R16": frozenset({"HC-R17", "HC-R18"}),
}
"""Cause -> codes that merely follow from it, for the same requests."""


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
    findings: list[Finding] = field(default_factory=list)


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
    found.findings = folded(merged(raised))
    for judged in found.requests:
        judged.sentence = verdict(judged.journey, judged.ladder, judged.account, judged.lost)
    return found


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


def merged(raised: Iterable[Finding]) -> list[Finding]:
    """One finding for each code and whether it explains a loss: requests and engines gathered, the first one's arguments kept."""
    by_code: dict[tuple[str, bool], Finding] = {}
    for each in raised:
        first = by_code.get((each.code, each.causal))
        if first is None:
            by_code[each.code, each.causal] = Finding(
                each.code, each.args, list(each.evidence), list(each.rids), list(each.engines), each.certain, each.causal, each.serving, each.tokens
            )
            continue
        first.rids = list(dict.fromkeys([*first.rids, *each.rids]))
        first.engines = list(dict.fromkeys([*first.engines, *each.engines]))
        first.evidence = list(dict.fromkeys([*first.evidence, *each.evidence]))[:MOST_EVIDENCE]
        first.certain = first.certain and each.certain
        first.tokens += each.tokens
        first.serving = first.serving and each.serving
    for code in {code for code, causal in by_code if causal}:
        beside = by_code.pop((code, False), None)
        if beside is not None:
            kept = by_code[code, True]
            kept.rids = list(dict.fromkeys([*kept.rids, *beside.rids]))
            kept.engines = list(dict.fromkeys([*kept.engines, *beside.engines]))
    return sorted(by_code.values(), key=order)


def folded(findings: list[Finding]) -> list[Finding]:
    """Take out what follows from a cause of the same requests, and name it under the cause."""
    gone: set[str] = set()
    for cause in findings:
        for follower in findings:
            follows = follower.code in FOLDS.get(cause.code, frozenset()) and cause.code not in gone
            same = set(follower.rids) <= set(cause.rids) or (not cause.rids and set(follower.engines) <= set(cause.engines))
            if follows and same and follower.causal:
                cause.folded.append(follower.code)
                gone.add(follower.code)
    return [each for each in findings if each.code not in gone]


def select(found: Diagnosis, request: str | None, code: str | None) -> tuple[list[Verdict], list[Finding]]:
    """Requests whose id is REQUEST or begins with it, and that CODE concerns; findings of those, or of engines alone where nothing was asked."""
    findings = found.findings
    if code is not None:
        findings = [each for each in findings if canonical(code) in (each.code, *each.folded)]
    named = {rid for each in findings for rid in each.rids}
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
        findings = [each for each in findings if rids & set(each.rids) or (not each.rids and engines & set(each.engines))]
    return requests, findings
