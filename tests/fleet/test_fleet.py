"""Many hosts at a glance: sums that are those of `explain`, ranks that lag, servers that cannot share."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from invoke import ROOT, document, hicachectl
from stories import Story

from hicachectl import store
from hicachectl.diagnosis.run import diagnose
from hicachectl.fleet import accounts as accounts_
from hicachectl.fleet import verdicts
from hicachectl.fleet.accounts import accounts
from hicachectl.fleet.report import fleet
from hicachectl.model.engine import Engine
from hicachectl.store import Span
from hicachectl.store.columns import opened
from hicachectl.store.columns.around import processes
from tracers import vocabulary as v

pytest.importorskip("chdb")
SAMPLES = sorted(path.parent for path in (ROOT / "tests" / "samples").rglob("run.json"))


def told(folder: Path) -> dict[str, Any]:
    """What `fleet -o json` says of a recording."""
    return document(hicachectl("fleet", "--from", f"chdb:{folder}", "-o", "json"))


def summed(folder: Path) -> tuple[dict[str, int], Counter[str]]:
    """Tokens by tier and loss by code, added up over the verdicts of `explain`."""
    found = diagnose(store.read([folder])).requests
    names = ("prompt", "device", "host", "storage", "computed", "tail")
    tokens = {name: sum(getattr(each.account, name) for each in found if each.journey.prefix is not None) for name in names}
    lost = Counter[str]()
    for each in found:
        for loss in each.lost:
            lost[loss.code] += loss.tokens
    return {"requests": len(found), **tokens, "new": sum(each.new for each in found if each.journey.prefix is not None)}, lost


def flat(total: dict[str, Any]) -> dict[str, int]:
    """The same of a document."""
    return {name: total[name] for name in ("requests", "prompt", "computed", "tail", "new")} | total["reused"]


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
def test_a_fleet_adds_up_to_what_explain_says(run: Path) -> None:
    """Requests, tokens by tier and loss by code of recordings of the real engine."""
    total = told(run)["total"]
    tokens, lost = summed(run)
    assert flat(total) == tokens
    assert total["lost"] == lost
    assert total["prompt"] == sum(total["reused"].values()) + total["computed"]
    assert total["computed"] == sum(total["lost"].values()) + total["new"] + total["tail"]


def many(folder: Path) -> Path:
    """Engines that share, and one that cannot; a write that failed, and requests that miss its pages."""
    story = Story()
    first, second, other = story.engine(), story.engine(), story.engine(page=64, scheme="other")
    first.request("writes", 8)
    first.request("fails", 8, bad_put={3: -200})
    for number in range(5):
        second.request(f"reads-{number}", 8, prompt="writes", hit=8)
        second.request(f"misses-{number}", 8, prompt="writes", hit=2)
    other.request("elsewhere", 2, prompt="writes")
    for span in second.made.spans[30:60]:
        # As where the engine traces requests itself, and several have one caller.
        span.document["traceId"] = "5" * 32
    return story.recording.write(folder)


def test_losses_are_exact_however_few_requests_are_judged_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wrote a page is found though its request is judged with another part; so is a twin under another key."""
    folder = many(tmp_path / "run")
    tokens, lost = summed(folder)
    assert {code[3] for code in lost} >= {"K", "R"}
    for at_once in (1, 3, 1000):
        monkeypatch.setattr(verdicts, "AT_ONCE", at_once)
        with opened(f"chdb:{folder}") as database:
            found = fleet(database)
        assert found.total.lost == lost
        assert (found.total.requests, found.total.storage, found.total.new) == (tokens["requests"], tokens["storage"], tokens["new"])


@pytest.mark.parametrize("theirs", [{"tag": "t"}, {"config": {v.TENANT: "green"}}, {"model": "m_tp2_dcp4_page64_pp1_cp1"}, {"sglang": "0.5.14", "scheme": "old"}], ids=str)
def test_whatever_keeps_two_servers_apart_is_a_loss_of_the_one_that_asks(tmp_path: Path, theirs: dict[str, Any]) -> None:
    """Each field of the table of differences makes it look for the same tokens under other keys."""
    story = Story()
    story.engine(**{"sglang": "0.5.23", **theirs}).request("writes", 8)
    story.engine(sglang="0.5.23").request("asks", 8, prompt="writes")
    folder = story.recording.write(tmp_path / "run")
    tokens, lost = summed(folder)
    assert sum(lost.values()) == 128
    with opened(f"chdb:{folder}") as database:
        found = fleet(database)
    assert (found.total.lost, found.total.new) == (lost, tokens["new"])
    assert len(found.apart) == 1


def test_servers_that_cannot_share_are_told_with_the_cause_first(tmp_path: Path) -> None:
    """Those that are alike stand in one group; a pair has the code, the field and both values."""
    found = told(many(tmp_path / "run"))
    assert [len(group) for group in found["groups"]] == [2, 1]
    (pair,) = found["apart"]
    assert pair["differ"][0] == {"code": "HC-K01", "field": "page size", "first": 16, "second": 64}
    text = hicachectl("fleet", str(tmp_path / "run"))
    assert text.returncode == 0
    assert "servers that cannot read each other's pages" in text.stdout
    assert "HC-K01  page size" in text.stdout


def test_the_rank_that_lags_is_named_and_the_slowest_transfer_comes_first(tmp_path: Path) -> None:
    """Two ranks of one server at the same transfers: the ratio of their medians; every rank tells how many requests it saw."""
    story = Story()
    ranks = [story.engine(tp_rank=rank, tp_size=2) for rank in (0, 1)]
    for number in range(3):
        for rank, engine in enumerate(ranks):
            engine.span(v.REQUEST_QUEUED, rid=f"r{number}", attributes={v.PROMPT_TOKENS: 100})
            engine.span(v.PREFETCH_TRANSFER, rid=f"r{number}", took=10.0 * (rank + 1) + number, attributes={v.AGREED_TOKENS: 96, v.DONE_TOKENS: 96})
    found = told(story.recording.write(tmp_path / "run"))
    (skew,) = found["skew"]
    assert (skew["work"], skew["p50_ms"], skew["ratio"]) == ("transfers", {"TP0": 11.0, "TP1": 21.0}, 1.909)
    assert [(each["rid"], each["ms"]) for each in found["slowest"][:2]] == [("r2", 22.0), ("r1", 21.0)]
    assert [(each["tp_rank"], each["requests"]) for each in found["engines"]] == [(0, 3), (1, 3)]
    assert found["total"]["never_prefilled"] == 3


def test_a_fleet_without_a_request_is_told_all_the_same(tmp_path: Path) -> None:
    """An engine that has served nothing is a row of zeros."""
    story = Story()
    story.engine()
    done = hicachectl("fleet", str(story.recording.write(tmp_path / "run")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:4] == ["host-a", "101", "TP0", "0"]
    assert json.loads(hicachectl("fleet", str(tmp_path / "run"), "-o", "json").stdout)["lost"] == []


def fates(random: Random, earlier: list[tuple[str, int]]) -> dict[str, Any]:
    """What becomes of a request by chance: cold, found, found in part, refused, cut short, computed by another since, retracted."""
    prompt, pages = random.choice(earlier) if earlier and random.random() < 0.6 else (f"p{len(earlier)}", random.randint(0, 12))
    device = random.randint(0, pages) if random.random() < 0.3 else 0
    host = random.randint(0, pages - device) if random.random() < 0.2 else 0
    rest = pages - device - host
    hit = random.choice([0, rest, random.randint(0, rest)])
    told: dict[str, Any] = {"pages": pages, "prompt": prompt, "tail": random.choice([0, 1, 5]), "device": device, "host": host, "hit": hit}
    chances = (
        ("gate", "R01", 0.05), ("lookup", False, 0.05), ("lookup_error", "RuntimeError", 0.03), ("done", hit // 2, 0.1), ("transfer", False, 0.03), ("finish", False, 0.03),
        ("prefix", random.randint(0, pages), 0.2), ("writes", False, 0.2), ("there", True, 0.1), ("bad_put", {0: -200}, 0.1), ("store_error", "RuntimeError", 0.03),
        ("missing", {2 * rest - 1: 0} if rest else {}, 0.05), ("extra_key", True, 0.05), ("publish", False, 0.03),
    )  # fmt: skip
    return told | {name: value for name, value, chance in chances if random.random() < chance}


def by_chance(seed: int, folder: Path) -> Path:
    """A recording of servers that share, one of two ranks, now and then one that names pages otherwise; anything may happen to their requests, which may come twice."""
    random, story = Random(seed), Story()
    servers = [[story.engine()], [story.engine(tp_rank=rank, tp_size=2) for rank in (0, 1)], [story.engine(**({"page": 64, "scheme": "other"} if seed % 2 else {}))]]
    earlier: list[tuple[str, int]] = []
    for number in range(60):
        told = fates(random, earlier)
        earlier.append((told["prompt"], told["pages"]))
        rid = f"r{number if random.random() < 0.95 else number // 2}"
        for rank in random.choice(servers):
            if random.random() < 0.97:
                rank.request(rid, **told | {"hit": max(0, told["hit"] - (random.random() < 0.05))})
    return story.recording.write(folder)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_becomes_of_requests_the_sums_are_those_of_explain(seed: int, tmp_path: Path) -> None:
    """Sixty requests of chance: tokens by tier, by process and by code, though only the doubtful ones are judged by rules."""
    folder = by_chance(seed, tmp_path / "run")
    tokens, lost = summed(folder)
    seen = Counter(rank.engine.id for each in diagnose(store.read([folder])).requests for rank in each.journey.ranks)
    with opened(f"chdb:{folder}") as database:
        found = fleet(database)
        engines = verdicts.processes(database, processes(database))
        sums = accounts(database, engines, alike=verdicts.keys_alike(database, engines))
    assert found.total.lost == lost
    assert {name: getattr(found.total, name) for name in tokens} == tokens
    assert found.seen == seen
    assert 0 < len(sums.others) < tokens["requests"]


def comes_twice(story: Story) -> None:
    """A request whose id comes again later, for which no gate and no lookup was recorded then."""
    engine = story.engine()
    engine.request("twice", 8)
    engine.request("other", 8)
    engine.span(v.REQUEST_QUEUED, rid="twice", attributes={v.PROMPT_TOKENS: 300, v.RETRACTED: False})
    engine.span(v.PREFILL, rid="twice", attributes={v.PROMPT_TOKENS: 300, v.PREFIX_TOKENS: 0, v.FIRST_CHUNK: True})


def prefilled_again_alone(story: Story) -> None:
    """The first prefill is not in the recording; that after a retraction, which is no part of the account, carried the prefix that the first had made."""
    engine = story.engine()
    engine.span(v.REQUEST_QUEUED, rid="back", attributes={v.PROMPT_TOKENS: 133, v.RETRACTED: False})
    engine.span(v.PREFETCH_GATE, rid="back", attributes={v.PROMPT_TOKENS: 133, v.MATCHED_DEVICE: 0, v.MATCHED_HOST: 0})
    engine.span(v.PREFILL, rid="back", attributes={v.PROMPT_TOKENS: 140, v.PREFIX_TOKENS: 0, v.FIRST_CHUNK: True, v.RETRACTED: True})


@pytest.mark.parametrize("tale", [comes_twice, prefilled_again_alone], ids=lambda tale: tale.__name__)
def test_a_request_that_its_own_figures_do_not_tell_all_of_is_judged_by_rules(tale: Callable[[Story], None], tmp_path: Path) -> None:
    """The database adds up none of its spans; sums and losses are those of `explain`."""
    story = Story()
    tale(story)
    folder = story.recording.write(tmp_path / "run")
    tokens, lost = summed(folder)
    with opened(f"chdb:{folder}") as database:
        found = fleet(database)
    assert {name: getattr(found.total, name) for name in tokens} == tokens
    assert found.total.lost == lost


def test_a_prefill_after_a_retraction_is_no_part_of_the_account(tmp_path: Path) -> None:
    """Where it is the only one that was recorded, the request was never seen to be prefilled for the first time."""
    story = Story()
    prefilled_again_alone(story)
    found = told(story.recording.write(tmp_path / "run"))["total"]
    assert (found["requests"], found["never_prefilled"], found["prompt"], found["computed"]) == (1, 1, 0, 0)


def test_a_server_that_ran_before_it_was_traced_is_judged_by_rules_beside_others(tmp_path: Path) -> None:
    """What it had before was not seen: its requests are not added up in the database, those of a server beside it are."""
    story = Story()
    story.engine().request("a", 8)
    story.engine().request("b", 8)
    story.engines[0].made.ledger(attached_ms=story.recording.epoch_ms)
    folder = story.recording.write(tmp_path / "run")
    tokens, lost = summed(folder)
    with opened(f"chdb:{folder}") as database:
        found = fleet(database)
        sums = accounts(database, verdicts.processes(database, processes(database)), alike=True)
    assert list(sums.others) == ["a"]
    assert found.total.lost == lost
    assert {name: getattr(found.total, name) for name in tokens} == tokens


def test_thousands_of_processes_of_different_page_sizes_are_asked_about_at_once(tmp_path: Path) -> None:
    """The question names each of them once and briefly: it stays below what the database accepts by default."""
    folder = by_chance(1, tmp_path / "run")
    with opened(f"chdb:{folder}") as database:
        engines = verdicts.processes(database, processes(database))
        expected = accounts(database, engines, alike=False)
        more = {f"a-host-of-a-long-name-{number}:1000:1764000000000": number for number in range(accounts_.MOST_ENGINES)}
        settings = {name: Engine(name, {}, None, {v.ENGINE: [Span(v.ENGINE, "", "", decoded={v.PAGE_SIZE: 1 + number % 200})]}, family=name) for name, number in more.items()}
        assert accounts(database, {**engines, **settings}, alike=False) == expected


def test_requests_of_processes_that_the_question_cannot_name_are_judged_by_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more of them, or more kinds of them, than one question can name, and where two have the same number."""
    folder = by_chance(1, tmp_path / "run")
    tokens, lost = summed(folder)
    last = crc32(max(store.read([folder]).resources).encode())
    for name, value in (("MOST_ENGINES", 1), ("MOST_KINDS", 1), ("crc32", lambda _: last)):
        with opened(f"chdb:{folder}") as database, monkeypatch.context() as patch:
            patch.setattr(accounts_, name, value)
            found = fleet(database)
        assert found.total.lost == lost
        assert {name: getattr(found.total, name) for name in tokens} == tokens


def test_requests_that_can_have_lost_nothing_are_left_to_the_database(tmp_path: Path) -> None:
    """Cold prompts, prompts found as a whole, and prompts of which a new end was computed are added up there; what misses a written page is not."""
    story = Story()
    first, second = story.engine(), story.engine()
    for number in range(20):
        first.request(f"cold-{number}", 8)
        second.request(f"found-{number}", 8, prompt=f"cold-{number}", hit=8)
    first.request("shorter", 8, prompt="longer")
    second.request("longer", 12, prompt="longer", hit=8)
    second.request("misses", 8, prompt="cold-0", hit=2)
    folder = story.recording.write(tmp_path / "run")
    for pages in (50, accounts_.PAGES_AT_ONCE):
        with opened(f"chdb:{folder}") as database, pytest.MonkeyPatch.context() as patch:
            patch.setattr(accounts_, "PAGES_AT_ONCE", pages)
            sums = accounts(database, verdicts.processes(database, processes(database)), alike=True)
        assert list(sums.others) == ["misses"]
        assert sum(each.requests for each in sums.tallies.values()) == 42
