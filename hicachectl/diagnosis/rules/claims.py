"""The engine's own split claims more than was reused: G02."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """Sum of the engine's split against the prefix that the prefill batch carried."""
    claims, account = case.account.claims, case.account
    claimed = sum(claims.values())
    if case.journey.prefix is not None and claimed > account.reused:
        args: dict[str, object] = {"claimed": claims["host"] + claims["storage"], "actual": account.reused, "claims": dict(claims)}
        yield of_request(case.journey, "G02", args=args, evidence=(case.journey.attempt.first_prefill,), causal=True)


RULE = Rule("claims", ("G02",), (v.PREFILL,), of_case=judge)
