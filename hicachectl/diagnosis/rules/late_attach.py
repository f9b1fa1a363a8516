"""Pages written after an attach at run time whose keys name a suffix only: K10, for what stands before them has no page key."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import Attempt, reason
from hicachectl.model.engine import Engine
from hicachectl.model.take import keys, text
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """The first node that a request had copied covers full pages of its prompt: in a chain that begins at the root it has keys of the prompt."""
    journey = case.journey
    for rank in journey.ranks:
        attach = _attached(rank.engine, rank)
        if attach is None:
            continue
        own = rank.page_keys[(journey.prefix or 0) // journey.page :]
        copy = next((span for span in rank.all(v.WRITE_BACKUP) if keys(span)), None)
        if copy is None or not own or any(case.world.pages.copied(rank.engine.id, key, 0) for key in own):
            continue
        if set(rank.page_keys).isdisjoint(keys(copy)):
            args: dict[str, object] = {"pages": len(keys(copy)), "rank": rank.engine.rank, "first": keys(copy)[0]}
            stored = [span for span in rank.all(v.WRITE_STORE) if span.start_ns >= copy.start_ns]
            yield of_request(journey, "K10", args=args, evidence=(attach, copy, *stored[:4], rank.first(v.REQUEST_QUEUED)), causal=True)
            return


def _attached(engine: Engine, rank: Attempt) -> Span | None:
    """The attach of a running engine before this request (0.5.14 `hiradix_cache.py`: nodes that predate it keep no page keys)."""
    done = [span for span in engine.all(v.BACKEND_ATTACH_ASKED) if text(span, v.OUTCOME) == v.OK and reason(span) is None and span.end_ns <= rank.start_ns]
    return done[-1] if done else None


RULE = Rule("attached late", ("K10",), (v.BACKEND_ATTACH_ASKED, v.WRITE_BACKUP, v.WRITE_STORE, v.REQUEST_QUEUED, v.PREFILL), of_case=judge, needs=(v.BACKEND_ATTACH_ASKED, v.WRITE_BACKUP))
