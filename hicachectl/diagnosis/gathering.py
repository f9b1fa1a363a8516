"""Findings of every request together: blame, folding, and one finding for each code. Each is one pass, however many requests there are."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hicachectl.diagnosis.finding import MOST_EVIDENCE, Finding, order

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
    "HC-K08": frozenset({"HC-R12", "HC-R04"}),
    "HC-K11": frozenset({"HC-R15"}),
    "HC-K13": frozenset({"HC-R10"}),
    "HC-R16": frozenset({"HC-R17", "HC-R18"}),
    "HC-R102": frozenset({"HC-R17", "HC-R18"}),
    "HC-L08": frozenset({"HC-R19"}),
    "HC-W02": MISSED,
    "HC-W13": MISSED,
    "HC-W17": MISSED,
}
"""Cause -> codes that merely follow from it, for the same request."""


@dataclass(frozen=True, slots=True)
class Loser:
    """A request that lost pages which the store had: what it asked for, and when."""

    rid: str
    engine: str
    start_ns: int
    page_keys: tuple[str, ...]


def blame_writes(raised: Iterable[Finding], losers: Sequence[Loser]) -> None:
    """A write that failed is a cause for the requests that asked later for its pages and lost some: they are named with it."""
    asked: dict[str, list[int]] = defaultdict(list)
    for place, loser in enumerate(losers):
        for key in loser.page_keys:
            asked[key].append(place)
    for fault in raised:
        later = sorted(
            {place for key in fault.unwritten for place in asked.get(key, ()) if losers[place].start_ns > fault.time_ns}
        )
        if later:
            fault.causal = True
            fault.rids = list(dict.fromkeys([*fault.rids, *(losers[place].rid for place in later)]))
            fault.engines = list(dict.fromkeys([*fault.engines, *(losers[place].engine for place in later)]))


def folded(raised: Sequence[Finding]) -> list[Finding]:
    """Take out what follows from a cause of the same request, or of its engine, and name it under the cause."""
    of_request: dict[str, list[Finding]] = defaultdict(list)
    of_engine: dict[str, list[Finding]] = defaultdict(list)
    for each in sorted((each for each in raised if each.code in FOLDS), key=order):
        for rid in each.rids:
            of_request[rid].append(each)
        for engine in () if each.rids else each.engines:
            of_engine[engine].append(each)
    kept = []
    for each in raised:
        near = [
            *(cause for rid in each.rids for cause in of_request.get(rid, ())),
            *(cause for engine in each.engines for cause in of_engine.get(engine, ())),
        ]
        causes = [
            cause
            for cause in near
            if each.rids and each.code in FOLDS[cause.code] and (cause.causal or not each.causal)
        ]
        if causes:
            first = min(causes, key=order)
            if each.code not in first.folded:
                first.folded.append(each.code)
        else:
            kept.append(each)
    return kept


class _Gathered:
    """Findings of one code in one."""

    def __init__(self, first: Finding) -> None:
        self.first = replace(first)
        self.rids = dict.fromkeys(first.rids)
        self.engines = dict.fromkeys(first.engines)
        self.evidence = dict.fromkeys(first.evidence)
        self.folded = dict.fromkeys(first.folded)

    def add(self, other: Finding) -> None:
        """Take in OTHER: its requests, engines and evidence after those that are there."""
        self._add(other.rids, other.engines, other.evidence, other.folded)
        self.first.certain = self.first.certain and other.certain
        self.first.serving = self.first.serving and other.serving
        self.first.tokens += other.tokens

    def join(self, other: "_Gathered") -> None:
        """Take in all that OTHER has gathered."""
        self.add(other.result())

    def _add(self, rids: Iterable[str], engines: Iterable[str], evidence: Iterable[str], folds: Iterable[str]) -> None:
        self.rids.update(dict.fromkeys(rids))
        self.engines.update(dict.fromkeys(engines))
        self.folded.update(dict.fromkeys(folds))
        if len(self.evidence) < MOST_EVIDENCE:
            self.evidence.update(dict.fromkeys(evidence))

    def result(self) -> Finding:
        """The one finding."""
        self.first.rids, self.first.engines, self.first.folded = list(self.rids), list(self.engines), list(self.folded)
        self.first.evidence = list(self.evidence)[:MOST_EVIDENCE]
        return self.first


def merged(raised: Iterable[Finding]) -> list[Finding]:
    """One finding for each code: requests, engines and evidence gathered, the first one's arguments kept; causes first."""
    by_code: dict[tuple[str, bool], _Gathered] = {}
    for each in raised:
        first = by_code.get((each.code, each.causal))
        if first is None:
            by_code[each.code, each.causal] = _Gathered(each)
        else:
            first.add(each)
    for code in {code for code, causal in by_code if causal}:
        beside = by_code.pop((code, False), None)
        if beside is not None:
            by_code[code, True].join(beside)
    return sorted((each.result() for each in by_code.values()), key=order)


def concerning(raised: Iterable[Finding], asked: Iterable[tuple[str, str]]) -> list[Finding]:
    """Those of RAISED that name a request of ASKED (request id, engine), or its engine and no request at all."""
    rids, engines = {rid for rid, _ in asked}, {engine for _, engine in asked}
    return [each for each in raised if rids & {*each.rids} or (not each.rids and engines & {*each.engines})]
