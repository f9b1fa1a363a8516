"""Faults of one engine with the usual settings: what the store lacks, what the policies do, what the engine has no room for."""

import pytest
from faults_bench import Judged, explain
from faults_prompts import PROMPTS
from faults_releases import expected
from faults_shared import Runs
from installed import only

pytestmark = pytest.mark.real


def judged(runs: Runs, rid: str) -> Judged:
    """The verdict on one request of the first engine."""
    return explain(*runs.of("first"), request=rid)


def row(runs: Runs, found: Judged, rid: str) -> dict:
    """A request's row, its account compared with what the engine returned."""
    return found.request(rid, runs.engines["first"])


def lost(request: dict) -> dict[str, int]:
    """Tokens by code."""
    return {each["code"]: each["tokens"] for each in request["lost"]}


def test_f01_healthy(alone: Runs) -> None:
    """Written, flushed, asked again: every rung is climbed and nothing is found."""
    found = judged(alone, "f01-again")
    again = row(alone, found, "f01-again")
    assert found.document["findings"] == []
    assert set(again["ladder"].values()) == {"yes", "not_asked"}
    assert again["ladder"]["written"] == "not_asked"
    assert again["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 592}
    assert again["tokens"]["engine_claims"]["storage"] == 592
    assert [(each["rid"], each["tokens"]) for each in again["writers"]] == [("f01-writes", 592)]


def test_f03_a_short_suffix_is_not_looked_up(alone: Runs) -> None:
    """Below the threshold the store is not asked: R04 with both numbers, although the pages are there."""
    found = judged(alone, "f03-again")
    again, first = row(alone, found, "f03-again"), found.first("f03-again")
    assert (first["code"], first["level"], first["certain"]) == ("HC-R04", "info", True)
    assert (first["args"]["tokens"], first["args"]["threshold"]) == (192, 256)
    assert (again["ladder"]["found"], again["ladder"]["prefix_reused"]) == ("not_asked", "no")
    assert lost(again) == {"HC-R04": 192}


def test_f04_fewer_hits_than_the_threshold(alone: Runs) -> None:
    """128 of 512 tokens are in the store: found, and given up."""
    found = judged(alone, "f04-whole")
    whole, first = row(alone, found, "f04-whole"), found.first("f04-whole")
    assert (first["code"], first["certain"]) == ("HC-R12", True)
    assert (first["args"]["hits"], first["args"]["threshold"]) == (128, 256)
    assert (whole["ladder"]["found"], whole["ladder"]["transfer_done"]) == ("partial", "not_asked")
    assert lost(whole) == {"HC-R12": 128}
    assert whole["tokens"]["new"] == 512 - 128 - 16


@pytest.mark.parametrize(("name", "page", "folded"), [("f05", 5, ["HC-R12"]), ("f05b", 20, [])])
def test_f05_one_object_is_missing(alone: Runs, name: str, page: int, folded: list[str]) -> None:
    """The object is named, what lies behind it is counted, and what follows from it is folded."""
    rid = f"{name}-again"
    found = judged(alone, rid)
    again, first = row(alone, found, rid), found.first(rid)
    assert (first["code"], first["certain"], first["folded"]) == ("HC-R13", True, folded)
    assert first["args"]["key"] == alone.engines["first"].objects(PROMPTS[name])[page][1]
    assert (first["args"]["page"], first["args"]["unreachable"]) == (page, 36 - page)
    assert again["ladder"]["found"] == "partial"
    assert lost(again) == {"HC-R13": (37 - page) * 16, **({"HC-R12": page * 16} if folded else {})}
    assert again["tokens"]["reused"]["storage"] == (0 if folded else page * 16)
    assert not [each for each in found.findings(rid) if each["code"] == "HC-R12"]


@pytest.mark.parametrize(("name", "code"), [("f06", "HC-R17"), ("f07", "HC-R18")])
def test_f06_f07_the_policy_ends_the_prefetch(alone: Runs, name: str, code: str) -> None:
    """best_effort takes what is there, timeout what is there in time: nothing here, of all pages."""
    rid = f"{name}-again"
    found = judged(alone, rid)
    again, first = row(alone, found, rid), found.first(rid)
    pages = (len(PROMPTS[name]) - 1) // 16
    assert (first["code"], first["certain"]) == (code, True)
    assert (first["args"]["done"], first["args"]["pages"]) == (0, pages)
    rungs = expected("F06", "rungs") if name == "f06" else [("yes", "no")]
    assert (again["ladder"]["found"], again["ladder"]["transfer_done"]) in rungs
    assert lost(again) == {code: pages * 16}
    if code == "HC-R18":
        deadline = 0.2 + 0.1 * pages * 16 / 1024
        assert first["args"]["deadline"] == pytest.approx(deadline, abs=0.01)
        assert first["args"]["seconds"] > first["args"]["deadline"]


def test_f09_the_prefetch_budget_is_used_up(alone: Runs) -> None:
    """Three long prefetches hold more than the limit: the fourth is declined, with both numbers; the others are served."""
    found = explain(*alone.of("first"), request="f09-")
    rows = [row(alone, found, f"f09-{number}-again") for number in range(4)]
    refused = [each for each in rows if each["lost"]]
    assert [lost(each) for each in refused] == [{"HC-R05": 1392}]
    first = found.first(refused[0]["rid"])
    assert (first["code"], first["certain"]) == ("HC-R05", True)
    assert first["args"]["occupied"] == 3 * 1392
    assert first["args"]["limit"] == expected("F09", "limit")
    assert refused[0]["ladder"]["found"] == "not_asked"
    assert {sum(each["tokens"]["reused"].values()) for each in rows} == {0, 1392}


def test_f12_no_room_on_the_device(alone: Runs) -> None:
    """The prefetch is done, the device is full of running requests: the wait is said with the tokens wanted and the room."""
    found = judged(alone, "f12-again")
    again, first = row(alone, found, "f12-again"), found.first("f12-again")
    assert (first["code"], first["level"]) == ("HC-L08", "warning")
    assert first["args"]["tokens"] == 1184
    assert first["args"]["needed"] > first["args"]["room"]
    assert first["args"]["waited_ms"] >= 500
    assert again["ladder"]["transfer_done"] == "yes"


def test_a_load_over_its_quota(alone: Runs) -> None:
    """A patched scheduler gives a limit: the pages are in host memory and computed all the same, L03 with both numbers."""
    only("0.5.14")
    found = judged(alone, "l03-again")
    again, first = row(alone, found, "l03-again"), found.first("l03-again")
    assert (first["code"], first["level"], first["certain"]) == ("HC-L03", "warning", True)
    assert (first["args"]["tokens"], first["args"]["quota"]) == (384, 16)
    assert (again["ladder"]["published"], again["ladder"]["loaded_back"], again["ladder"]["prefix_reused"]) == ("yes", "no", "no")
    assert lost(again) == {"HC-L03": 384}


def test_two_requests_fetch_the_same_pages(alone: Runs) -> None:
    """What the second fetched was in the tree already: an info, and neither loses a token."""
    found = explain(*alone.of("first"), request="r23-")
    first = found.code("HC-R23")
    assert (first["level"], first["args"]["tokens"], first["args"]["fetched"], len(first["rids"])) == ("info", 384, 384, 1)
    for rid in ("r23-one", "r23-other"):
        assert lost(row(alone, found, rid)) == {}


@pytest.mark.parametrize(("name", "code"), [("f13", "HC-W02"), ("f14", "HC-W01")])
def test_f13_f14_the_write_policy_does_not_write_yet(alone: Runs, name: str, code: str) -> None:
    """Seen once, or not evicted yet: not written, and that is what the policy asks for."""
    rid = f"{name}-once"
    found = judged(alone, rid)
    once, first = row(alone, found, rid), found.first(rid)
    assert (first["code"], first["level"], first["certain"]) == (code, "info", True)
    assert once["ladder"]["written"] == "no"
    assert first["args"]["tokens"] == 400
    assert once["tokens"]["new"] == 384
    if code == "HC-W02":
        assert (first["args"]["hits"], first["args"]["threshold"]) == (1, 2)


def test_f30_noticed_late(alone: Runs) -> None:
    """The transfer is done long before a slot is free: an info with the wait split, and no loss."""
    found = judged(alone, "f30-again")
    again, first = row(alone, found, "f30-again"), found.first("f30-again")
    assert (first["code"], first["level"]) == ("HC-R19", "info")
    assert first["args"]["notice_ms"] + first["args"]["admission_ms"] > 1000 > first["args"]["transfer_ms"]
    assert again["times_ms"]["notice"] == pytest.approx(first["args"]["notice_ms"], abs=1)
    assert again["tokens"]["reused"]["storage"] == 592
