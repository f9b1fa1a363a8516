"""Why pages that were in the store were computed: one place of the journey at a time, on recordings made by hand."""

from pathlib import Path
from typing import Any

import pytest
from stories import Story

from hicachectl.diagnosis.run import Diagnosis, Verdict
from tracers import vocabulary as v


def of(found: Diagnosis, rid: str) -> Verdict:
    """The verdict on a request, its account checked."""
    judged = next(each for each in found.requests if each.journey.attempt.rid == rid)
    account = judged.account
    assert account.prompt == account.reused + account.computed
    assert account.computed == judged.lost_tokens + judged.new + account.tail
    return judged


def lost(judged: Verdict) -> dict[str, int]:
    """Tokens by code."""
    return {each.code: each.tokens for each in judged.lost}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"hit": 8}, {}),
        ({"gate": "R04"}, {"HC-R04": 128}),
        ({"gate": "R05"}, {"HC-R05": 128}),
        ({"gate": "R06"}, {"HC-R06": 128}),
        ({"gate": "R01"}, {"HC-R01": 128}),
        ({"gate": "R02"}, {"HC-R02": 128}),
        ({"gate": "R03"}, {"HC-R03": 128}),
        ({"gate": "R07"}, {"HC-R07": 128}),
        ({"gate": "R09"}, {"HC-R09": 128}),
        ({"gate": "R28"}, {"HC-R28": 128}),
        ({"hit": 8, "transfer": False, "finish": False, "abort": True}, {"HC-R25": 128}),
        ({"hit": 8, "transfer": False, "finish": False, "revoke": "R14"}, {"HC-R14": 128}),
        ({"hit": 8, "transfer": False, "finish": False, "revoke": "X07"}, {"HC-X07": 128}),
        ({"hit": 8, "transfer": False, "finish": False, "revoke": "R17"}, {"HC-R17": 128}),
        ({"hit": 3, "missing": {7: 0}, "transfer": False, "finish": False, "revoke": "R17"}, {"HC-R13": 80, "HC-R12": 48}),
        ({"hit": 8, "publish_reason": "R22"}, {"HC-R22": 128}),
        ({"hit": 8, "publish_reason": "R24"}, {"HC-R24": 128}),
        ({"lookup_error": "OSError"}, {"HC-R10": 128}),
        ({"hit": 0, "missing": dict.fromkeys(range(16), -900)}, {"HC-R101": 128}),
        ({"hit": 3, "missing": {7: 0}}, {"HC-R13": 80, "HC-R12": 48}),
        ({"hit": 5, "missing": {10: 0}}, {"HC-R13": 48}),
        ({"hit": 8, "done": 5, "bad_get": {10: -800}}, {"HC-R15": 48}),
        ({"hit": 8, "transfer_error": "AssertionError", "done": 0}, {"HC-R16": 128}),
        ({"hit": 8, "loaded": 0, "load_reason": "L02"}, {"HC-L02": 128}),
        ({"hit": 8, "loaded": 0, "load_reason": "L05"}, {"HC-L05": 128}),
        ({"hit": 8, "loaded": 0, "load_reason": "L04"}, {"HC-L04": 128}),
    ],
)
def test_a_page_is_lost_where_it_stopped(tmp_path: Path, told: dict[str, Any], expected: dict[str, int]) -> None:
    """Eight pages that were written before stop at the place that is told; the code is certain, and says how many tokens it cost."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes", **told)
    judged = of(story.judged(tmp_path), "again")
    assert lost(judged) == expected
    assert all(each.certain for each in judged.lost)
    assert judged.account.reused == 128 - sum(expected.values())


def test_a_cold_prompt_is_no_loss(tmp_path: Path) -> None:
    """Nobody wrote it: the tokens are new, and nothing is found."""
    story = Story()
    story.engine().request("cold", 8)
    found = story.judged(tmp_path)
    assert (of(found, "cold").new, lost(of(found, "cold"))) == (128, {})
    assert found.findings == []


@pytest.mark.parametrize(
    ("other", "code", "field"),
    [
        ({"page": 32}, "HC-K01", "page size"),
        ({"tag": "b"}, "HC-K03", "extra_backend_tag"),
        ({"model": "other"}, "HC-K04", "key prefix"),
        ({"tp_size": 2}, "HC-K02", "tensor parallel size"),
        ({"sglang": "0.5.23", "tag": "model"}, "HC-K05", "SGLang release"),
        ({"scheme": "pairs", "tree": {v.BIGRAM: True}}, "HC-K06", "bigram keys"),
    ],
)
def test_other_keys_name_the_setting_that_differs(tmp_path: Path, other: dict[str, Any], code: str, field: str) -> None:
    """A second engine with one setting changed asks for the same prompt: the K code, and the failed lookup folded under it."""
    story = Story()
    story.engine().request("writes", 8)
    pages = 128 // other.get("page", 16)
    story.engine(**other).request("asks", pages, prompt="writes")
    found = story.judged(tmp_path)
    assert lost(of(found, "asks")) == {code: 128}
    first = found.findings[0]
    assert (first.code, first.args["field"], first.certain) == (code, field, True)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"hit": 8, "loaded": 0}, "HC-L10"),
        ({"hit": 8, "prefix": 0}, "HC-G03"),
        ({"host": 8, "gate": "R04", "loaded": 0, "load_reason": "L02"}, "HC-L02"),
        ({"device": 8, "gate": "R04", "prefix": 0}, "HC-E05"),
    ],
)
def test_what_no_span_explains_is_a_guess(tmp_path: Path, told: dict[str, Any], code: str) -> None:
    """The place is known, the reason is not always: only what the engine itself gave as its reason is certain."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes", **told)
    judged = of(story.judged(tmp_path), "again")
    assert [(each.code, each.tokens, each.certain) for each in judged.lost] == [(code, 128, code == "HC-L02")]


def test_a_namespace_of_the_requests_own_changes_its_keys(tmp_path: Path) -> None:
    """The engines agree in all, the request brought an extra key: K07."""
    story = Story()
    story.engine().request("writes", 8)
    story.engine(scheme="salt").request("asks", 8, prompt="writes", extra_key=True)
    first = story.judged(tmp_path).findings[0]
    assert (first.code, first.args["ours"], first.args["theirs"]) == ("HC-K07", "a namespace of its own", "none")


def test_the_rank_that_read_least_decides(tmp_path: Path) -> None:
    """Both ranks found all, one had read five pages at the cut: R20 with the rank."""
    story = Story()
    ranks = [story.engine(tp_rank=rank, tp_size=2) for rank in range(2)]
    for rank in ranks:
        rank.made.ledger(ppid=77)
        rank.request("writes", 8)
    ranks[0].request("again", 8, prompt="writes", hit=8, prefix=5)
    ranks[1].request("again", 8, prompt="writes", hit=8, done=5, prefix=5)
    again = of(story.judged(tmp_path), "again")
    assert lost(again) == {"HC-R20": 48}
    assert (again.lost[0].args["rank"], again.lost[0].args["local"], again.lost[0].args["agreed"]) == (1, 128, 80)


@pytest.mark.parametrize("reason", ["E01", "E03"])
def test_an_eviction_takes_what_had_matched(tmp_path: Path, reason: str) -> None:
    """On the device when it came, evicted without a host copy before the prefill, in the engine's own words."""
    story = Story()
    engine = story.engine().request("writes", 8)
    at = story.now
    engine.request("again", 8, prompt="writes", device=8, gate="R04", prefix=0)
    engine.made.span(v.EVICT_DEVICE, at + 4, at + 5, attributes={v.OUTCOME: "ok", v.EVICT_ASKED: 128, v.EVICT_FREED: 128, v.EVICT_LOST: 128, v.REASON: reason})
    assert lost(of(story.judged(tmp_path), "again")) == {f"HC-{reason}": 128}


def test_two_ranks_find_what_the_poorer_one_has(tmp_path: Path) -> None:
    """The second rank lacks an object: R11 with the rank, and the object that it lacks."""
    story = Story()
    ranks = [story.engine(tp_rank=rank, tp_size=2) for rank in range(2)]
    for rank in ranks:
        rank.made.ledger(ppid=77)
        rank.request("writes", 8)
    ranks[0].request("again", 8, prompt="writes", hit=8, done=5, prefix=5)
    ranks[1].request("again", 8, prompt="writes", hit=5, missing={10: 0}, prefix=5)
    found = story.judged(tmp_path)
    again = of(found, "again")
    assert lost(again) == {"HC-R11": 48}
    first = again.lost[0]
    assert (first.args["rank"], first.args["local"], first.args["agreed"]) == (1, 128, 80)
    assert str(first.args["key"]).endswith("_1_k")
    assert len(found.requests) == 2
    assert [(each["rank"], each["found_tokens"]) for each in again.ranks] == [(0, 128), (1, 80)]
    # The second rank's story is told after the first's: that far are they apart.
    assert again.ranks[0]["lookup_after_ms"] == 0
    assert (again.ranks[1]["lookup_after_ms"] or 0) > 0


@pytest.mark.parametrize(("evicted", "code"), [(40, "HC-E06"), (0, "HC-E101")])
def test_pages_that_are_gone_were_evicted_or_forgotten(tmp_path: Path, evicted: int, code: str) -> None:
    """All pages written before are not found: the master's counters say whether it evicted them."""
    story = Story()
    engine = story.engine()
    story.sample(keys=0, evicted=0)
    engine.request("writes", 8)
    story.sample(keys=16, evicted=0)
    story.sample(keys=0, evicted=evicted)
    engine.request("again", 8, prompt="writes")
    story.sample(keys=16, evicted=evicted)
    found = story.judged(tmp_path)
    assert lost(of(found, "again")) == {code: 128}
    first = found.findings[0]
    assert (first.code, first.certain, first.args["evictions"]) == (code, True, evicted)


def test_without_samples_it_is_not_certain_who_took_the_pages(tmp_path: Path) -> None:
    """Nobody counted evictions: the code says that it is a guess."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes")
    found = story.judged(tmp_path)
    assert not found.findings[0].certain


def test_a_failed_write_is_the_cause_for_a_later_request(tmp_path: Path) -> None:
    """Half of a prompt was not written for want of room; who asks for it later loses what is there to the threshold: the write comes first."""
    story = Story()
    bad = dict.fromkeys(range(6, 16), -200)
    story.engine().request("writes", 8, bad_put=bad).request("again", 8, prompt="writes", hit=3, missing=dict.fromkeys(range(6, 16), 0))
    found = story.judged(tmp_path)
    first = found.findings[0]
    assert (first.code, first.folded) == ("HC-W13", ["HC-R12"])
    assert first.rids == ["writes", "again"]
    assert (first.args["code"], first.args["pages_lost"]) == (-200, 5)
    assert lost(of(found, "again")) == {"HC-R12": 48}
    assert of(found, "again").new == 80


def test_pages_that_another_request_inserted_are_credited_elsewhere(tmp_path: Path) -> None:
    """Fetched from the store, found in the tree already: G07 names the tier that gets the credit."""
    story = Story()
    engine = story.engine().request("writes", 8)
    engine.request("again", 8, prompt="writes", hit=8, others=8, claims={"device": 0, "host": 128, "storage": 0})
    found = {each.code: each for each in story.judged(tmp_path).findings}
    assert (found["HC-G07"].args["tokens"], found["HC-G07"].args["tier"], found["HC-G07"].level) == (128, "host", "info")


@pytest.mark.parametrize(("reason", "code"), [("W05", "HC-W05"), ("W06", "HC-W06"), ("W07", "HC-W07")])
def test_a_write_stops_before_the_store(tmp_path: Path, reason: str, code: str) -> None:
    """The engine's own reason for not copying a node to the host."""
    story = Story()
    story.engine().request("writes", 8, backup_reason=reason)
    found = story.judged(tmp_path)
    assert [each.code for each in found.findings] == [code]
    assert of(found, "writes").ladder["written"].state == "no"


def test_the_pool_that_shortens_the_prefix_is_named(tmp_path: Path) -> None:
    """All pages of the KV pool are there, and those of a sliding window only up to the fifth: the loss names that pool."""
    story = Story()
    engine = story.engine().request("writes", 8)
    engine.request("again", 8, prompt="writes", hit=5, missing={10: 0}, pools={"kv": 8, "swa": 5})
    found = story.judged(tmp_path)
    assert lost(of(found, "again")) == {"HC-R13": 48}
    told = found.findings[0]
    assert (told.code, told.args["pool"], told.args["page"]) == ("HC-R13", "swa", 5)
    assert "in the pool swa" in told.title


def test_a_gap_of_the_kv_pool_is_told_so(tmp_path: Path) -> None:
    """A model with one pool has no other to name."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=3, missing={7: 0})
    told = story.judged(tmp_path).findings[0]
    assert (told.code, told.args["pool"]) == ("HC-R13", "kv")


def test_what_follows_is_folded_for_its_own_request_only(tmp_path: Path) -> None:
    """One request loses to a gap, another to the threshold alone: the second keeps its finding."""
    story = Story()
    engine = story.engine()
    engine.request("writes", 8).request("part", 2, prompt="other")
    engine.request("gap", 8, prompt="writes", hit=3, missing={6: 0})
    engine.request("below", 8, prompt="other", hit=2)
    found = story.judged(tmp_path)
    codes = {each.code: each for each in found.findings}
    assert (codes["HC-R13"].rids, codes["HC-R13"].folded) == (["gap"], ["HC-R12"])
    assert (codes["HC-R12"].rids, codes["HC-R12"].args["hits"]) == (["below"], 32)


def test_the_engines_own_split_is_held_against_the_tiers(tmp_path: Path) -> None:
    """More claimed than reused is G02; the store's tokens credited to the host is G01."""
    story = Story()
    engine = story.engine().request("writes", 8)
    engine.request("claims", 8, prompt="writes", hit=8, loaded=0, load_reason="L02", claims={"device": 0, "host": 0, "storage": 128})
    engine.request("credits", 8, prompt="writes", hit=8, claims={"device": 0, "host": 128, "storage": 0})
    found = story.judged(tmp_path)
    by_code = {each.code: each for each in found.findings}
    assert (by_code["HC-G02"].args["claimed"], by_code["HC-G02"].args["actual"]) == (128, 0)
    assert by_code["HC-G02"].rids == ["claims"]
    assert (by_code["HC-G01"].args["actual"], by_code["HC-G01"].rids) == (128, ["credits"])


def test_what_explains_no_loss_comes_last_and_the_own_write_after_it(tmp_path: Path) -> None:
    """A late notice, and pages that were there when they were written again: the wait is what the request met."""
    story = Story()
    engine = story.engine().request("writes", 8)
    engine.request("again", 8, prompt="writes", hit=8, prefix=7, seen_after=3000, there=True)
    found = story.judged(tmp_path)
    assert [each.code for each in found.findings if "again" in each.rids] == ["HC-G03", "HC-R19", "HC-W12"]


def test_spans_that_a_ledger_counts_and_nobody_has_make_everything_uncertain(tmp_path: Path) -> None:
    """The same loss in a recording that lacks a span: the finding stays, and is not certain."""
    story = Story()
    engine = story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=5, missing={10: 0})
    engine.made.ledger(written=len(engine.made.spans) + 1)
    found = story.judged(tmp_path)
    assert [(each.code, each.certain) for each in found.findings if each.causal] == [("HC-R13", False)]
    assert not found.world.recording.complete




def test_what_was_never_written_was_not_evicted(tmp_path: Path) -> None:
    """Of sixteen pages eight were written, and the store evicted those: their objects are counted, and it is certain."""
    story = Story()
    engine = story.engine()
    story.sample(keys=0, evicted=0)
    engine.request("writes", 8, prompt="prompt")
    story.sample(keys=16, evicted=0)
    story.sample(keys=0, evicted=16)
    engine.request("longer", 16, prompt="prompt")
    story.sample(keys=32, evicted=16)
    found = story.judged(tmp_path)
    assert lost(of(found, "longer")) == {"HC-E06": 128}
    first = found.findings[0]
    assert (first.code, first.certain, first.args["objects"]) == ("HC-E06", True, 16)


def test_pages_of_every_chunk_that_was_not_written_are_counted(tmp_path: Path) -> None:
    """Two chunks are written one after the other and no put takes more than two pages: what both left is told, of all pages of the prompt."""
    story = Story()
    story.engine().request("writes", 16, chunks=(8,), bad_put=dict.fromkeys(range(4, 16), -200)).request("again", 16, prompt="writes", hit=2)
    found = next(each for each in story.judged(tmp_path).findings if each.code == "HC-W13")
    assert (found.args["pages"], found.args["pages_lost"], found.args["codes"]) == (16, 12, {"-200": 24})
    assert found.rids == ["writes", "again"]
