"""Where a page was written, and by whom last, on recordings made by hand."""

from pathlib import Path
from typing import Any

import pytest
from stories import Story

from tracers import vocabulary as v

ELSEWHERE = {"config": {v.MASTER: "other:50051"}}


@pytest.mark.parametrize(("other", "code"), [({}, "HC-E101"), ({"page": 32}, "HC-K01")])
def test_what_was_written_through_another_master_may_not_be_lost(tmp_path: Path, other: dict[str, Any], code: str) -> None:
    """Two addresses may be two stores: the loss is doubtful, and both addresses are told."""
    story = Story()
    story.engine(**other).request("writes", 256 // int(other.get("page", 16)), prompt="prompt")
    story.engine(**ELSEWHERE).request("asks", 16, prompt="prompt")
    story.sample(keys=16, evicted=0)
    first = next(each for each in story.judged(tmp_path).findings if "asks" in each.rids)
    assert (first.code, first.certain) == (code, False)
    assert (first.args["written_through"], first.args["asked_through"]) == ("store:50051", "other:50051")


def test_what_the_lookup_found_is_lost_whatever_the_masters_address(tmp_path: Path) -> None:
    """The store asked has the pages, so that they were written there: the loss after it is certain."""
    story = Story()
    story.engine().request("writes", 16, prompt="prompt")
    story.engine(**ELSEWHERE).request("asks", 16, prompt="prompt", hit=16, done=16, load_reason="L03", loaded=0, prefix=0)
    first = next(each for each in story.judged(tmp_path).findings if "asks" in each.rids)
    assert first.certain
    assert "written_through" not in first.args


def test_the_writer_is_who_wrote_last(tmp_path: Path) -> None:
    """The store had lost the pages and a second request wrote them anew: a third has them from the second."""
    story = Story()
    story.engine().request("writes", 8).request("anew", 8, prompt="writes").request("again", 8, prompt="writes", hit=8)
    again = next(each for each in story.judged(tmp_path).requests if each.journey.attempt.rid == "again")
    assert [(rid, tokens) for _, rid, tokens in again.account.writers] == [("anew", 128)]


def test_of_two_that_wrote_at_once_the_first_to_end_is_the_writer(tmp_path: Path) -> None:
    """The second looked before the first had written: its put comes to objects that are there, which the store keeps."""
    story = Story()
    first = story.engine()
    second = story.engine()
    began = story.now
    first.request("writes", 8, prompt="prompt")
    story.now = began
    second.request("beside", 8, prompt="prompt")
    first.request("again", 8, prompt="prompt", hit=8)
    again = next(each for each in story.judged(tmp_path).requests if each.journey.attempt.rid == "again")
    assert [(rid, tokens) for _, rid, tokens in again.account.writers] == [("writes", 128)]


def test_evictions_that_nobody_counted_are_no_number(tmp_path: Path) -> None:
    """Without the master's samples a finding does not say that none were counted."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes")
    first = story.judged(tmp_path).findings[0]
    assert (first.code, first.certain, first.args["evictions"]) == ("HC-E101", False, None)
    assert "0 evictions" not in first.title


def test_pages_that_a_request_wrote_anew_were_not_there(tmp_path: Path) -> None:
    """Nothing says what the lookup found: the put itself shows that the pages, written before, were gone."""
    story = Story()
    story.engine().request("writes", 8).request("anew", 8, prompt="writes", gate="R04")
    anew = next(each for each in story.judged(tmp_path).requests if each.journey.attempt.rid == "anew")
    assert anew.ladder["written"].state == "yes"
