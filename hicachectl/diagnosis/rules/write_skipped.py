"""A write that stopped before the store: W05 to W08 on the way to the host, W09 where nothing was queued, W10 without page keys."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import reason
from hicachectl.model.take import count, keys, number, text
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """The first skip of each kind, unless a later try of the same node went through."""
    journey = case.journey
    seen: set[str] = set()
    backups = [(rank.engine.id, span) for rank in journey.ranks for span in rank.all(v.WRITE_BACKUP)]
    done = {(engine, number(span, v.NODE)) for engine, span in backups if count(span, v.WRITTEN_TOKENS)}
    for engine, span in backups:
        code = reason(span)
        if code is None or code in seen or (engine, number(span, v.NODE)) in done:
            continue
        seen.add(code)
        tokens = count(span, v.TOKENS)
        args: dict[str, object] = {"tokens": tokens, "free": number(span, v.HOST_FREE), "needed": tokens, "freed": number(span, v.HOST_FREE), "parent_tokens": "earlier", "pool": text(span, v.POOL_SHORT)}
        yield of_request(journey, code, args=args, evidence=(span,), unwritten=frozenset(keys(span)), time_ns=span.start_ns)
    for span in (span for rank in journey.ranks for span in rank.all(v.WRITE_ENQUEUE)):
        code = reason(span)
        if code in ("W09", "W10") and code not in seen:
            seen.add(code)
            yield of_request(journey, code, args={"tokens": journey.prompt, "reason": "the tree queued nothing for it"}, evidence=(span,))


RULE = Rule("write skipped", ("W05", "W06", "W07", "W08", "W09", "W10"), (v.WRITE_BACKUP, v.WRITE_ENQUEUE), of_case=judge)
