"""Pages that count as written without an object put: W16, for the anchor pool has no buffer of its own."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import Attempt
from hicachectl.model.take import count, text
from hicachectl.store import Span
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """An operation that counts pages as done although none of its objects was put or found (mooncake_store.py, batch_set_v1 of a logical anchor)."""
    for rank in case.journey.ranks:
        anchor = next((span for span in rank.engine.all(v.BUFFER_POOL) if text(span, v.OUTCOME) == v.DECLINED and text(span, v.POOL) == "kv"), None)
        if anchor is None:
            continue
        empty = [span for span in rank.all(v.WRITE_STORE) if count(span, v.WRITTEN_TOKENS) and not _moved(rank, span)]
        if empty:
            pages = sum(count(span, v.WRITTEN_TOKENS) for span in empty) // case.journey.page
            args: dict[str, object] = {"pages": pages, "rank": rank.engine.rank}
            yield of_request(case.journey, "W16", args=args, evidence=(anchor, *empty[:4]), certain=case.world.certain(rank.engine))
            return


def _moved(rank: Attempt, operation: Span) -> bool:
    """Whether an object of any pool was put, or was there."""
    return any(count(span, v.OBJECTS_OK) for name in (v.STORE_PUT, v.STORE_EXIST) for span in rank.inside(operation, name))


RULE = Rule("anchor without a buffer", ("W16",), (v.BUFFER_POOL, v.WRITE_STORE, v.STORE_PUT, v.STORE_EXIST), of_case=judge, needs=(v.BUFFER_POOL, v.WRITE_STORE))
