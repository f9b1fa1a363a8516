"""The running account of a recording."""

from pathlib import Path

from recordings import Engine, Recording

from hicachectl.recorder.summary import Summary
from hicachectl.store import Tail
from tracers import vocabulary as v


def request(engine: Engine, rid: str, *, prompt: int, device: int, host: int, prefix: int, at: float = 10) -> None:
    """The spans of a request that the account looks at."""
    engine.span(
        v.REQUEST_QUEUED, at, rid=rid, attributes={v.PAGE_SIZE: 16, v.PROMPT_TOKENS: prompt, v.RETRACTED: False}
    )
    engine.span(v.PREFETCH_GATE, at + 1, rid=rid, attributes={v.MATCHED_DEVICE: device, v.MATCHED_HOST: host})
    engine.span(v.PREFETCH_TRANSFER, at + 2, rid=rid, attributes={v.DONE_TOKENS: max(0, prefix - device - host)})
    told = {v.PREFIX_TOKENS: prefix, v.EXTEND_TOKENS: prompt - prefix, v.PROMPT_TOKENS: prompt, v.FIRST_CHUNK: True}
    engine.span(v.PREFILL, at + 3, rid=rid, attributes=told)


def summed(made: Recording, folder: Path) -> Summary:
    """The account of a recording that was read by a tail."""
    made.write(folder)
    summary, tail = Summary(), Tail(folder)
    summary.add(tail.look(), tail.resources)
    return summary


def test_tokens_are_counted_by_the_tier_where_they_lay(tmp_path: Path) -> None:
    """What the match found on device and host, and the rest of the prefix from storage; the remainder was computed."""
    made = Recording()
    engine = made.engine()
    engine.span(v.ENGINE_START, 1, attributes={v.TP_RANK: 0})
    request(engine, "a", prompt=597, device=16, host=32, prefix=592)
    request(engine, "b", prompt=40, device=32, host=16, prefix=32)
    engine.span(v.WRITE_STORE, 20, attributes={v.WRITTEN_TOKENS: 48, v.PAGES: 3})
    found = summed(made, tmp_path)
    assert (found.device, found.host, found.storage, found.computed) == (48, 32, 544, 13)
    assert (found.requests, found.queued, found.pages_read, found.pages_written) == (2, 2, 34, 3)
    assert found.engines == {engine.id}


def test_ranks_are_not_added_up(tmp_path: Path) -> None:
    """The second rank sees the same request; it counts once."""
    made = Recording()
    for rank in (0, 1):
        engine = made.engine(pid=100 + rank, tp_rank=rank)
        engine.span(v.ENGINE_START, 1, attributes={v.TP_RANK: rank})
        request(engine, "a", prompt=40, device=0, host=0, prefix=32)
    found = summed(made, tmp_path)
    assert (found.requests, found.storage, found.pages_read, len(found.engines)) == (1, 32, 2, 2)


def test_chunks_retractions_and_health_checks_do_not_count(tmp_path: Path) -> None:
    """Only the first prefill of a request that a user sent."""
    made = Recording()
    engine = made.engine()
    request(engine, "a", prompt=40, device=0, host=0, prefix=32)
    again = {v.PREFIX_TOKENS: 32, v.EXTEND_TOKENS: 8}
    engine.span(v.PREFILL, 30, rid="a", attributes={**again, v.FIRST_CHUNK: False})
    engine.span(v.PREFILL, 31, rid="a", attributes={**again, v.FIRST_CHUNK: True, v.RETRACTED: True})
    request(engine, f"{v.HEALTH_RID_PREFIX}_1", prompt=40, device=0, host=0, prefix=32)
    assert summed(made, tmp_path).requests == 1


def test_without_a_gate_the_engines_own_split_is_taken(tmp_path: Path) -> None:
    """An engine without storage has no gate: device and host come from its claims."""
    made = Recording()
    engine = made.engine()
    told = {v.PREFIX_TOKENS: 32, v.EXTEND_TOKENS: 8, v.CLAIM_HOST: 16, v.CLAIM_STORAGE: 0, v.FIRST_CHUNK: True}
    engine.span(v.PREFILL, 30, rid="a", attributes=told)
    found = summed(made, tmp_path)
    assert (found.device, found.host, found.storage, found.computed) == (16, 16, 0, 8)


def test_what_did_not_reach_the_collector_is_that_of_each_process_s_last_ledger(tmp_path: Path) -> None:
    """The count grows from ledger to ledger; processes are added up by who shows it."""
    made = Recording()
    for pid, counts in ((1, (0, 3)), (2, (4, 9)), (3, (None,))):
        engine = made.engine(pid=pid)
        for at, count in enumerate(counts):
            engine.span(v.LEDGER, at, attributes={v.EXPORT_DROPPED: count})
    assert sorted(summed(made, tmp_path).unsent.values()) == [3, 9]
