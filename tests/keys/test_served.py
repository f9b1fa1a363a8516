"""The shape of a running server, from what it says of itself."""

import json
from typing import Any

import pytest

from hicachectl.exits import BadInputError, UsageError
from hicachectl.keys.pools import Kind
from hicachectl.keys.served import served
from hicachectl.keys.shape import Shape

OLD: dict[str, Any] = {
    "version": "0.5.14",
    "page_size": 64,
    "tp_size": 8,
    "dp_size": 1,
    "pp_size": 2,
    "enable_dp_attention": False,
    "served_model_name": "org/m",
    "speculative_algorithm": None,
    "enable_hierarchical_cache": True,
    "hicache_mem_layout": "page_first",
    "hicache_storage_backend": "mooncake",
    "hicache_storage_prefetch_policy": "best_effort",
    "hicache_storage_backend_extra_config": None,
}
MHA = {"architectures": ["LlamaForCausalLM"]}
MLA = {"architectures": ["DeepseekV3ForCausalLM"]}


def shape(info: dict[str, Any], model: dict[str, Any] = MHA) -> Shape:
    """The shape that a server's answers give."""
    return Shape(**served(info, model).settings)


def test_sizes_names_and_policy_are_taken_over() -> None:
    """A plain server's shape is what its arguments say."""
    told = served(OLD, MHA)
    assert Shape(**told.settings) == Shape(page_size=64, tp_size=8, pp_size=2, model_name="org/m")
    assert (told.policy, told.threshold, told.remarks) == ("best_effort", 256, ())


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        ({}, 8),
        ({"enable_dp_attention": True, "dp_size": 4}, 2),
        ({"enable_dp_attention": True, "dp_size": 2, "attn_cp_size": 2}, 2),
        ({"enable_dp_attention": False, "dp_size": 2}, 8),
    ],
)
def test_only_ranks_that_share_attention_count(changes: dict[str, Any], ranks: int) -> None:
    """Under attention data parallelism the ranks in keys are those of one attention group."""
    assert shape(OLD | changes).tp_size == ranks


def test_mla_is_told_by_the_architecture_where_nothing_else_tells() -> None:
    """An older server's architecture decides; without one, mha is assumed and said to be."""
    assert shape(OLD, MLA).kind is Kind.mla
    assert any("assumed" in line for line in served(OLD, {}).remarks)


def test_a_newer_server_tells_its_own_layout() -> None:
    """Layout, pools and windows of 0.5.22 and later are taken from the server's own description of its objects."""
    inner = {
        "is_mla_backend": True,
        "key_prefix": "org-m",
        "pools": [
            {"pool": "kv", "suffixes": ["__k"], "hit_policy": "all_pages"},
            {"pool": "swa", "suffixes": ["__swa"], "hit_policy": "trailing_pages", "trailing_pages": 3},
            {"pool": "colour", "suffixes": ["__colour"], "hit_policy": "all_pages"},
        ],
    }
    info = OLD | {"version": "0.5.23", "hicache_object_layout": {"enabled": True, "hicache_object_layout": inner}}
    told = served(info, MHA)
    found = Shape(**told.settings)
    assert (found.kind, [use.name for use in found.pools], found.prefix) == (Kind.mla, ["swa"], "org-m_")
    assert told.windows == {"swa": 3}
    assert any("colour" in line for line in told.remarks)


def test_pairs_of_tokens_are_told_by_the_algorithm() -> None:
    """EAGLE counts pairs of tokens, an n-gram draft does not."""
    assert shape(OLD | {"speculative_algorithm": "EAGLE3"}).bigram
    assert not shape(OLD | {"speculative_algorithm": "NGRAM"}).bigram


def test_heads_are_split_only_in_their_own_layout() -> None:
    """tp_lcm_size of the extra configuration counts in the host layout page_head alone."""
    extra = {
        "hicache_storage_backend_extra_config": json.dumps(
            {"tp_lcm_size": 16, "extra_backend_tag": 7, "prefetch_threshold": 1}
        )
    }
    plain, split = served(OLD | extra, MHA), served(OLD | extra | {"hicache_mem_layout": "page_head"}, MHA)
    assert (Shape(**plain.settings).split_factor, Shape(**split.settings).split_factor) == (1, 2)
    assert (plain.settings["tag"], plain.threshold) == ("7", 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hicache_storage_backend": "file"}, "file, not mooncake"),
        ({"hicache_storage_backend": None}, "none, not mooncake"),
        ({"enable_hierarchical_cache": False}, "without its hierarchical cache"),
        ({"hicache_storage_backend_extra_config": "@/etc/extra.toml"}, "/etc/extra.toml"),
        ({"hicache_storage_backend_extra_config": "{"}, "cannot be read"),
        ({"speculative_algorithm": "EAGLE"}, "--pools draft"),
    ],
)
def test_what_a_reader_must_know_is_remarked(changes: dict[str, Any], words: str) -> None:
    """A server that writes no such keys, or hides what they depend on, gives a remark."""
    assert any(words in line for line in served(OLD | changes, MHA).remarks)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"page_size": None}, BadInputError),
        ({"page_size": "64"}, BadInputError),
        ({"version": None}, UsageError),
        ({"version": "0.4.1"}, UsageError),
    ],
)
def test_a_server_that_hides_what_keys_depend_on_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    """Without a page size or a known release no keys are guessed."""
    with pytest.raises(error):
        served(OLD | changes, MHA)
