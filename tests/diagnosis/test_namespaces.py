"""Extra keys, salts and adapters on a release whose page keys know none of them, and keys that differ for other reasons."""

from pathlib import Path
from typing import Any

import pytest
from stories import Serving, Story
from test_losses import lost, of

from hicachectl.diagnosis.finding import Finding
from hicachectl.diagnosis.run import Diagnosis
from tracers import vocabulary as v

SALTED: dict[str, Any] = {"extra_key": True, "namespace": 1}


def codes(found: Diagnosis) -> dict[str, Finding]:
    """Findings by code."""
    return {each.code: each for each in found.findings}


def astray(story: Story, **told: Any) -> Serving:
    """A plain request wrote; one with an extra key has the pages fetched, and its tree does not match them."""
    options = {"hit": 8, "matched": False, "writes": False, **SALTED, **told}
    return story.engine().request("writes", 8, namespace=0).request("salted", 8, prompt="writes", **options)


def test_pages_that_are_published_without_the_extra_key(tmp_path: Path) -> None:
    """Transferred, published under the root, computed all the same: every token is lost by R27, and the objects are shared (K12)."""
    story = Story()
    astray(story)
    found = story.judged(tmp_path)
    assert lost(of(found, "salted")) == {"HC-R27": 128}
    told = codes(found)
    assert (told["HC-R27"].args["tokens"], told["HC-R27"].args["extra_key"], told["HC-R27"].certain, told["HC-R27"].level) == (128, "number 1", True, "error")
    assert (told["HC-K12"].args["namespaces"], told["HC-K12"].args["objects"], told["HC-K12"].rids) == (2, 16, ["salted"])


@pytest.mark.parametrize(
    ("told", "sglang"),
    [({"anchor": "a" * 64}, "0.5.14"), ({}, "0.5.23"), ({"extra_key": False, "namespace": 0}, "0.5.14"), ({"publish": False}, "0.5.14")],
)
def test_pages_of_the_requests_own_namespace_are_not_astray(tmp_path: Path, told: dict[str, Any], sglang: str) -> None:
    """An anchor has the request's own key, a later release takes the request's, a plain request has none: R27 is not said."""
    story = Story()
    engine = story.engine(sglang=sglang).request("writes", 8, namespace=0)
    engine.request("asks", 8, prompt="writes", hit=8, **{"matched": False, "writes": False, **SALTED, **told})
    assert "HC-R27" not in codes(story.judged(tmp_path))


def test_a_plain_request_meets_the_pages(tmp_path: Path) -> None:
    """It finds them on the host although nobody plain brought them there: G08 with the request for which they were fetched."""
    story = Story()
    engine = story.engine().request("writes", 8, namespace=0)
    engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 0})
    engine.request("salted", 8, prompt="writes", hit=8, matched=False, writes=False, **SALTED)
    engine.request("plain", 8, prompt="writes", host=8, namespace=0, gate="R04")
    engine.request("later", 8, prompt="writes", host=8, namespace=0, gate="R04")
    told = codes(story.judged(tmp_path))["HC-G08"]
    assert (told.rids, told.args["tokens"], told.args["fetched_for"], told.level) == (["plain"], 128, "salted", "info")


def test_after_a_reset_nothing_of_it_is_left(tmp_path: Path) -> None:
    """What a plain request meets after a flush came another way."""
    story = Story()
    engine = astray(story)
    engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 0})
    engine.request("plain", 8, prompt="writes", host=8, namespace=0, gate="R04")
    assert "HC-G08" not in codes(story.judged(tmp_path))


@pytest.mark.parametrize(("mine", "expected"), [(2, True), (1, False), (None, False)])
def test_two_extra_keys_of_one_process_are_told_apart(tmp_path: Path, mine: int | None, expected: bool) -> None:
    """Their numbers differ: the objects are shared. The same number, or none told, proves nothing."""
    story = Story()
    engine = story.engine().request("writes", 8, **SALTED)
    engine.request("asks", 8, prompt="writes", hit=8, anchor="a" * 64, extra_key=True, namespace=mine)
    assert ("HC-K12" in codes(story.judged(tmp_path))) == expected


def test_numbers_of_two_processes_are_not_compared(tmp_path: Path) -> None:
    """Each counts for itself; only that one has no extra key at all is the same everywhere."""
    story = Story()
    story.engine().request("writes", 8, **SALTED)
    story.engine().request("asks", 8, prompt="writes", hit=8, anchor="a" * 64, extra_key=True, namespace=2)
    assert "HC-K12" not in codes(story.judged(tmp_path / "salted"))
    story.engine().request("plain", 8, prompt="writes", hit=8, namespace=0)
    assert codes(story.judged(tmp_path / "plain"))["HC-K12"].rids == ["plain"]


def test_matching_that_is_switched_off(tmp_path: Path) -> None:
    """The pages are fetched and never matched: every token is lost by G06, an info with the name of the switch."""
    story = Story()
    story.engine().request("writes", 8).request("again", 8, prompt="writes", hit=8, matched=False, match_off="SGLANG_RADIX_FORCE_MISS", writes=False)
    found = story.judged(tmp_path)
    assert lost(of(found, "again")) == {"HC-G06": 128}
    told = codes(found)["HC-G06"]
    assert (told.args["reason"], told.level, told.certain, told.rids) == ("SGLANG_RADIX_FORCE_MISS", "info", True, ["again"])


def test_a_token_that_does_not_fit(tmp_path: Path) -> None:
    """Hashing it raised in the lookup: K13, with the thread's death folded; the next request has R10."""
    story = Story()
    engine = story.engine().request("writes", 8)
    engine.request("wide", 8, prompt="writes", lookup_error="OverflowError", writes=False)
    engine.span(v.PREFETCH_THREAD, thread=("prefetch_thread_func", 7), error=True, attributes={v.OUTCOME: "failed", v.ERROR: "OverflowError"})
    engine.request("next", 8, prompt="writes", lookup=False, writes=False)
    found = story.judged(tmp_path)
    assert (lost(of(found, "wide")), lost(of(found, "next"))) == ({"HC-K13": 128}, {"HC-R10": 128})
    first = found.findings[0]
    assert (first.code, first.folded, first.rids, first.certain) == ("HC-K13", ["HC-R10"], ["wide"], True)


@pytest.mark.parametrize(
    ("ours", "theirs", "field"),
    [
        ({"model": "m_tp2_dcp2_page64_pp1_cp1"}, {"model": "m_tp2_dcp4_page64_pp1_cp1"}, "decode context parallel topology"),
        ({"config": {v.TENANT: "blue"}}, {"config": {v.TENANT: "green"}}, "tenant"),
        ({"config": {v.TENANT: "blue"}}, {}, "tenant"),
    ],
)
def test_topology_and_tenant_keep_objects_apart(tmp_path: Path, ours: dict[str, Any], theirs: dict[str, Any], field: str) -> None:
    """The same tokens are asked for under another DCP prefix, or as another tenant: K08 with the field."""
    story = Story()
    story.engine(sglang="0.5.23", **theirs).request("writes", 8)
    story.engine(sglang="0.5.23", **ours).request("asks", 8, prompt="writes")
    found = story.judged(tmp_path)
    assert lost(of(found, "asks")) == {"HC-K08": 128}
    assert (found.findings[0].code, found.findings[0].args["field"], found.findings[0].certain) == ("HC-K08", field, True)


@pytest.mark.parametrize(("linked", "expected"), [(True, ["HC-K09"]), (False, [])])
def test_the_linker_beside_hicache(tmp_path: Path, linked: bool, expected: list[str]) -> None:
    """Both were asked the same prompt and store it under keys of their own: K09 with both engines; without a linker nothing."""
    story = Story()
    one, other = story.engine(sglang="0.5.23"), story.engine(sglang="0.5.23", started={v.LINKER: linked})
    one.request("a", 8)
    other.request("b", 8, prompt="a", hit=8, writes=False)
    told = codes(story.judged(tmp_path)).get("HC-K09")
    assert ([told.code] if told else []) == expected
    if told is not None:
        assert (sorted(told.engines), sorted(told.rids)) == (sorted([one.made.id, other.made.id]), ["a", "b"])
