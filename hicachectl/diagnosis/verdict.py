"""One sentence for one request: backend created, transfer done, and prefix reused are three different facts."""

from collections.abc import Sequence

from hicachectl.diagnosis.codes import get
from hicachectl.diagnosis.finding import Finding
from hicachectl.model.account import Account
from hicachectl.model.engine import NO, NOT_ASKED, PARTIAL, UNKNOWN, YES
from hicachectl.model.journey import Journey, Rung
from tracers import vocabulary as v


def verdict(journey: Journey, ladder: dict[str, Rung], account: Account, lost: Sequence[Finding]) -> str:
    """What became of the prefix, why, and what the engine itself claims where that differs."""
    if journey.prefix is None:
        return _never_prefilled(journey)
    parts = [_reused(journey, ladder, account)]
    if lost:
        parts.append("lost: " + ", ".join(f"{each.tokens} tokens by {each.code} ({get(each.code).plain})" for each in lost))
    claimed = sum(account.claims.values())
    if claimed > account.reused:
        parts.append(f"the engine itself claims {claimed} cached tokens ({_split(account.claims)})")
    return "; ".join(parts)


def _reused(journey: Journey, ladder: dict[str, Rung], account: Account) -> str:
    if account.reused:
        word = "reused" if ladder["prefix_reused"].state in (YES, PARTIAL) else "carried as prefix, execution not observed"
        tiers = {"device": account.device, "host": account.host, "storage": account.storage}
        return f"{word}: {account.reused} of {account.prompt} prompt tokens ({_split(tiers)}){_by(account)}"
    if ladder["prefix_reused"].state == UNKNOWN:
        return "reuse unknown: the prefill was not observed"
    if ladder["transfer_done"].state in (YES, PARTIAL):
        return f"transfer done, not reused: the device computed all {account.prompt} prompt tokens"
    if ladder["found"].state in (YES, PARTIAL):
        return f"found, not transferred: the device computed all {account.prompt} prompt tokens"
    state = ladder["backend_created"].state
    backend = {YES: "backend created", NO: "no working backend", NOT_ASKED: "no storage backend asked for"}.get(state, f"backend {state}{_why_unknown(journey)}")
    asked = {NOT_ASKED: "the store was not asked", NO: "nothing found in the store"}.get(ladder["found"].state, f"lookup {ladder['found'].state}")
    return f"{backend}, nothing reused: {asked}, the device computed all {account.prompt} prompt tokens"


def _never_prefilled(journey: Journey) -> str:
    if journey.attempt.first(v.PREFETCH_ABORT) is not None:
        return "aborted while its prefetch was under way, before a prefill"
    return "no prefill of this request is in the recording: it was aborted while it waited, or waited still when the recording ends"


def _why_unknown(journey: Journey) -> str:
    return " (attached after start)" if journey.attempt.engine.attached_ms is not None else ""


def _by(account: Account) -> str:
    names = [f"{engine} (request {rid})" if rid else engine for engine, rid, _ in account.writers[:3]]
    return f", written by {', '.join(names)}" if names else ""


def _split(tiers: dict[str, int]) -> str:
    return ", ".join(f"{tokens} {tier}" for tier, tokens in tiers.items() if tokens) or "0"
