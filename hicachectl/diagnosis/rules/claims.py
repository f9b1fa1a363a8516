"""The engine's own split against what was reused: more claimed (G02), or the store's tokens credited to another tier (G01, G07)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import count
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """Sum of the engine's split against the prefix that the prefill batch carried, then the store's part of it."""
    claims, account, journey = case.account.claims, case.account, case.journey
    prefill = journey.attempt.first_prefill
    claimed = sum(claims.values())
    if journey.prefix is None:
        return
    if claimed > account.reused:
        args: dict[str, object] = {"claimed": claims["host"] + claims["storage"], "actual": account.reused, "claims": dict(claims)}
        yield of_request(journey, "G02", args=args, evidence=(prefill,), causal=True)
    elif claimed == account.reused and claims["storage"] < account.storage:
        yield _credited(case)


def _credited(case: Case) -> Finding:
    """Another request inserted the pages first, or the credit was taken by an admission attempt that failed."""
    claims, account, journey = case.account.claims, case.account, case.journey
    prefill, tries = journey.attempt.first_prefill, journey.attempt.all(v.ADMISSION)
    others = count(journey.publish, v.INSERTED_MATCHED)
    if others:
        tier = "host" if claims["host"] > account.host else "device"
        return of_request(journey, "G07", args={"tokens": others, "tier": tier}, evidence=(journey.publish, prefill))
    args: dict[str, object] = {"claimed": claims["storage"], "actual": account.storage, "attempts": len(tries), "claims": dict(claims)}
    return of_request(journey, "G01", args=args, evidence=(*journey.attempt.all(v.PREFETCH_CREDIT), *tries[:4], prefill), certain=len(tries) > 1)


RULE = Rule("claims", ("G01", "G02", "G07"), (v.PREFILL, v.ADMISSION, v.PREFETCH_CREDIT, v.PREFETCH_PUBLISH), of_case=judge, needs=(v.PREFILL,))
