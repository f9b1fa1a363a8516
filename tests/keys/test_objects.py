"""Object keys from page keys, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicachectl.exits import UsageError
from hicachectl.keys.decode import decode
from hicachectl.keys.objects import layout
from hicachectl.keys.pools import POOLS, Kind, parse
from hicachectl.keys.shape import Shape

H = "0123456789abcdef" * 4
NEWEST = "0.5.23"


def pools(*names: str, sglang: str = NEWEST) -> tuple:
    """Pools by the names that the command line takes."""
    return tuple(parse(name, sglang) for name in names)


@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        (Shape(), ["H_0_k", "H_0_v"]),
        (Shape(tp_size=2), ["H_0_k", "H_0_v", "H_1_k", "H_1_v"]),
        (Shape(pp_size=2), ["H_0_0_k", "H_0_0_v", "H_0_1_k", "H_0_1_v"]),
        (Shape(tp_lcm_size=2), ["H_0_k", "H_0_v", "H_1_k", "H_1_v"]),
        (Shape(tp_size=2, tp_lcm_size=4), [f"H_{share}_{part}" for share in range(4) for part in "kv"]),
        (Shape(tp_size=2, tp_lcm_size=2), ["H_0_k", "H_0_v", "H_1_k", "H_1_v"]),
        (Shape(kind=Kind.mla, tp_size=4), ["H__k"]),
        (Shape(kind=Kind.mla, pp_size=2), ["H_0_k", "H_1_k"]),
        (Shape(tag="blue"), ["blue_H_0_k", "blue_H_0_v"]),
        (Shape(tag="", model_name="ignored/before"), ["_H_0_k", "_H_0_v"]),
        (Shape(sglang="0.5.16", model_name="org/m"), ["H_0_k", "H_0_v"]),
        (Shape(sglang="0.5.17", model_name="org/m"), ["org-m_H_0_k", "org-m_H_0_v"]),
        (Shape(sglang=NEWEST, tag="blue", model_name="/org/m"), ["blue_-org-m_H_0_k", "blue_-org-m_H_0_v"]),
        (Shape(sglang=NEWEST, kind=Kind.mla, model_name="m", format_tag="flat"), ["m-flat_H__k"]),
        (
            Shape(sglang=NEWEST, kind=Kind.mla, tp_size=2, dcp_size=2, page_size=64, model_name="m"),
            ["m_tp2_dcp2_page64_pp1_cp1_H_dcp0_cp0_k", "m_tp2_dcp2_page64_pp1_cp1_H_dcp1_cp0_k"],
        ),
        (Shape(pools=pools("mamba:2")), ["H_0_k", "H_0_v", "H_0_temporal", "H_0_conv_0", "H_0_conv_1"]),
        (Shape(sglang=NEWEST, pools=pools("mamba:1:conv-only")), ["H_0_k", "H_0_v", "H_0_conv_0"]),
        (Shape(pools=pools("swa")), ["H_0_k", "H_0_v", "H_0_swa_k", "H_0_swa_v"]),
        (Shape(kind=Kind.mla, pools=pools("swa", "indexer")), ["H__k", "H__swa", "H__indexer"]),
        (Shape(kind=Kind.mla, pools=pools("draft:mha")), ["H__k", "H_0_draft_k", "H_0_draft_v"]),
        (Shape(kind=Kind.mla, pools=pools("deepseek_v4_c4", "swa")), ["H__deepseek_v4_c4", "H__swa"]),
        (Shape(tp_lcm_size=2, pools=pools("mamba:0")), ["H_0_k", "H_0_v", "H_1_k", "H_1_v", "H_['0', '1']_temporal"]),
        (Shape(sglang=NEWEST, linker=True, tp_size=2, model_name="/m"), ["-m_H_tp0_cp0_pp0_k", "-m_H_tp1_cp0_pp0_k"]),
    ],
)
def test_the_keys_of_a_page(shape: Shape, keys: list[str]) -> None:
    """Each layout names its objects as its release does, what ranks share once."""
    assert [key.replace(H, "H") for key in layout(shape).keys(H)] == keys


def test_every_rank_asks_for_its_own_objects() -> None:
    """A rank asks for its own K and V, and for what ranks share."""
    shape = Shape(tp_size=2, pools=pools("indexer"))
    keys = layout(shape).keys("H")
    assert [[keys[index] for index in rank] for rank in layout(shape).ranks] == [
        ["H_0_k", "H_0_v", "H__indexer"],
        ["H_1_k", "H_1_v", "H__indexer"],
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tp_size": 0}, "tp_size must be from 1"),
        ({"tp_lcm_size": 0}, "tp_lcm_size must be from 1"),
        ({"page_size": 10**23}, "page_size must be from 1 to"),
        ({"pp_size": 10**9}, "pp_size must be from 1 to"),
        ({"tp_size": 1024, "pp_size": 1024}, "1048576 ranks"),
        ({"tp_size": 2, "tp_lcm_size": 3}, "no multiple"),
        ({"linker": True}, "0.5.23"),
        ({"dcp_size": 2, "kind": Kind.mla, "tp_size": 2}, "0.5.23"),
        ({"dcp_size": 2, "sglang": NEWEST, "tp_size": 2}, "mla"),
        ({"dcp_size": 2, "sglang": NEWEST, "kind": Kind.mla, "tp_size": 3}, "multiples"),
        ({"pools": pools("swa", "swa")}, "twice"),
    ],
)
def test_a_shape_that_sglang_cannot_have_is_refused(changes: dict, sentence: str) -> None:
    """A combination that SGLang refuses or does not have ends with the sentence that says so."""
    with pytest.raises(UsageError, match=sentence):
        Shape(**changes)


@pytest.mark.parametrize(
    ("text", "sglang", "sentence"),
    [
        ("colour", NEWEST, "known are"),
        ("draft_swa", "0.5.17", "0.5.18"),
        ("indexer:mla", NEWEST, "expected indexer"),
        ("swa:mla", NEWEST, "expected swa"),
        ("draft:mxa", NEWEST, "draft:mha or draft:mla"),
        ("mamba:x", NEWEST, "mamba:N"),
        ("mamba:1000000000", NEWEST, "more convolution states"),
        ("mamba:1:conv-only", "0.5.14", "0.5.16"),
        ("mamba:0:conv-only", NEWEST, "temporal state or"),
    ],
)
def test_a_pool_that_is_none_is_refused(text: str, sglang: str, sentence: str) -> None:
    """A pool that the release does not have, or a use that the pool does not have, is refused by name."""
    with pytest.raises(UsageError, match=sentence):
        parse(text, sglang)


@given(
    st.builds(
        Shape,
        sglang=st.sampled_from(["0.5.14", "0.5.18", NEWEST]),
        kind=st.sampled_from(Kind),
        tp_size=st.sampled_from([1, 2, 8]),
        pp_size=st.sampled_from([1, 2]),
        tag=st.one_of(st.none(), st.text("ab_-.0", max_size=5)),
        model_name=st.one_of(st.none(), st.text("ab_-./", max_size=5)),
        pools=st.lists(
            st.sampled_from([row for row in POOLS if row.since == "0.5.14"]), max_size=3, unique_by=lambda row: row.name
        ).map(lambda rows: tuple(parse(row.name, "0.5.14") for row in rows)),
    )
)
def test_a_key_is_read_back(shape: Shape) -> None:
    """One reading of every key of every shape tells page, part, stage and prefix as they were."""
    laid_out = layout(shape)
    for key, slot in zip(laid_out.keys(H), laid_out.slots, strict=True):
        decoded = decode(key)
        assert (decoded.what, decoded.page_key, decoded.prefix) == (
            "object",
            H,
            shape.prefix[:-1] if shape.prefix else None,
        )
        stage = slot.pp_rank if shape.pp_size > 1 else None
        heads = () if slot.shared else (slot.tp_rank,)
        assert any(
            (each.part, each.component, each.pp_rank, each.heads) == (slot.part, slot.component, stage, heads)
            for each in decoded.readings
        )


def test_one_number_before_k_has_two_readings() -> None:
    """`_3_k` is rank 3 where ranks split the heads, and stage 3 where they share their data."""
    assert [(each.kind, each.heads, each.pp_rank) for each in decode(f"{H}_3_k").readings] == [
        (Kind.mha, (3,), None),
        (Kind.mla, (), 3),
    ]


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("sglang_mooncake_store_warmup_key0123", "warm-up"),
        (f"sglang-hicache:tag_{H}", "group"),
        (f"sglang-hicache:{H}_0_k", "unknown"),
        (H, "unknown"),
        (f"{H}_0_x", "unknown"),
        (f"{H[:-1]}_0_k", "unknown"),
        (f"{H.upper()}_0_k", "unknown"),
        ("tiny@tp_rank:0@" + H, "unknown"),
        ("", "unknown"),
    ],
)
def test_what_is_no_object_key_is_said_to_be_none(key: str, what: str) -> None:
    """Warm-up keys and group ids are told apart from objects, and what SGLang does not write is unknown and has no readings."""
    assert (decode(key).what, decode(key).readings) == (what, ())


@pytest.mark.parametrize(
    ("key", "releases"),
    [
        (f"{H}_0_k", "up to, not including, 0.5.17"),
        (f"m_{H}_0_k", "0.5.17 or later, or an earlier one with extra_backend_tag"),
        (f"m_{H}_0_draft_swa_k", "0.5.18 or later"),
        (f"m_tp2_dcp2_page64_pp1_cp1_{H}_dcp0_cp0_k", "0.5.23 or later"),
        (f"m_{H}_cp0_pp0_k", "0.5.23 or later"),
        ("x", ""),
    ],
)
def test_a_key_tells_which_releases_write_it(key: str, releases: str) -> None:
    """What stands before and after the page hash bounds the releases that can have written the key."""
    assert releases in decode(key).written_by


@given(st.text())
def test_any_text_can_be_decoded(text: str) -> None:
    """No text breaks the decoder."""
    assert decode(text).key == text
