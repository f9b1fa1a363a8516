"""Made recordings of many faults with spans taken out: what is certain stays true, and what is not known is not claimed."""

import random
from pathlib import Path
from typing import Any

import pytest
from recordings import page_keys
from stories import Serving, Story

from hicachectl.diagnosis.run import Diagnosis
from tracers import vocabulary as v

SALTED: dict[str, Any] = {"extra_key": True, "namespace": 1}


def played() -> Story:
    """Two engines on one store, and most of what a request can meet on them."""
    story = Story()
    one = story.engine(config={v.DEVICE_NAME: '{"7": "mlx5_0"}'}, tree={v.WINDOW: 256})
    for name in ("a", "b", "c", "d", "e"):
        one.request(f"{name}-writes", 8, prompt=name, namespace=0)
    one.request("quota", 8, prompt="a", hit=8, loaded=0, load_reason="L03")
    one.request("salted", 8, prompt="b", hit=8, matched=False, writes=False, **SALTED)
    one.request("forced", 8, prompt="c", hit=8, matched=False, match_off="SGLANG_RADIX_FORCE_MISS", writes=False)
    one.request("window", 8, prompt="d", hit=8, matched=False, writes=False)
    one.request("twice", 8, prompt="e", hit=8, others=8)
    other = story.engine()
    other.request("reuses", 8, prompt="a", hit=8)
    other.span(v.BACKEND_ATTACH_ASKED, attributes={v.OUTCOME: "ok", v.BACKEND: "mooncake"})
    other.request("suffix", 8, device=4, writes=False)
    other.span(v.WRITE_BACKUP, rid="suffix", attributes={v.OUTCOME: "ok", v.NODE: 9, v.TOKENS: 64, v.WRITTEN_TOKENS: 64, v.PAGE_KEYS: page_keys("w", "x", "y", "z")})
    other.request("cold", 8)
    return story


TRUTH = {"quota": {"HC-L03"}, "salted": {"HC-R27", "HC-K12"}, "forced": {"HC-G06"}, "window": {"HC-R08"}, "twice": {"HC-R23"}, "suffix": {"HC-K10"}}


def said(found: Diagnosis) -> dict[str, set[str]]:
    """Request -> codes that name it as certain, without those of the device map."""
    codes: dict[str, set[str]] = {}
    for each in found.raised:
        for rid in each.rids if each.certain else ():
            codes.setdefault(rid, set()).add(each.code)
    return codes


def thin(serving: Serving, rng: random.Random, share: float) -> int:
    """Take a random SHARE of an engine's spans out; its ledger still counts them. How many went."""
    before = len(serving.made.spans)
    serving.made.spans[:] = [span for span in serving.made.spans if rng.random() >= share]
    return before - len(serving.made.spans)


def test_the_recording_as_it_is(tmp_path: Path) -> None:
    """Each request has the codes that belong to it, all certain, and no other."""
    assert said(played().judged(tmp_path)) == TRUTH


@pytest.mark.parametrize("seed", range(40))
def test_without_a_tenth_of_them_nothing_wrong_is_certain(seed: int, tmp_path: Path) -> None:
    """What is certain is true, every account adds up, and each lost token has exactly one code."""
    story, rng = played(), random.Random(seed)
    counted = [len(serving.made.spans) for serving in story.engines]
    gone = [thin(serving, rng, 0.1) for serving in story.engines]
    for serving, before in zip(story.engines, counted, strict=True):
        serving.made.ledger(written=before)
    found = story.judged(tmp_path)
    assert found.world.recording.complete == (not any(gone))
    for rid, codes in said(found).items():
        assert codes <= TRUTH.get(rid, set())
    for each in found.requests:
        lost = sum(loss.tokens for loss in each.lost)
        assert each.journey.prefix is None or each.account.prompt == each.account.reused + each.account.computed
        assert each.account.computed == lost + each.new + each.account.tail
        assert lost == len({*each.account.lost_pages, *each.account.mismatched}) * each.journey.page
