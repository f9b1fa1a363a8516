"""The shape of a running server, from what it says of itself.

Sources: `/server_info` and `/model_info` in SGLang's `entrypoints/http_server.py`; which ranks share attention and which settings
reach the store in `managers/cache_controller.py` (`_generate_storage_config`); `configs/model_config.py` for the architectures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hicachectl.exits import BadInputError, UsageError
from hicachectl.keys import pools
from hicachectl.keys.pools import Kind, PoolUse
from hicachectl.keys.presence import DEFAULT_THRESHOLD, POLICIES
from hicachectl.keys.scheme import scheme_of

PAIRS = frozenset({"EAGLE", "EAGLE3", "NEXTN", "FROZEN_KV_MTP"})
"""Speculative algorithms under which a page counts pairs of tokens (`SpeculativeAlgorithm.is_eagle`)."""

MLA_ARCHITECTURES = frozenset(
    {
        "BailingMoeForCausalLMNextN",
        "BailingMoeV2_5ForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV3ForCausalLMNextN",
        "DeepseekV32ForCausalLM",
        "DeepseekVL2ForCausalLM",
        "DotsVLMForCausalLM",
        "Eagle3DeepseekV2ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "Glm4MoeLiteForCausalLMNextN",
        "GlmMoeDsaForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "KimiVLForConditionalGeneration",
        "LongcatFlashForCausalLM",
        "LongcatFlashForCausalLMNextN",
        "MiniCPM3ForCausalLM",
        "MistralLarge3ForCausalLM",
        "MistralLarge3ForCausalLMEagle",
        "SarvamMLAForCausalLM",
    }
)
"""Architectures whose attention is MLA, so that ranks share the KV cache."""


@dataclass(frozen=True, slots=True)
class Served:
    """Settings for a `Shape`, what the engine decides by, and what had to be assumed."""

    settings: dict[str, Any]
    windows: dict[str, int]
    threshold: int
    policy: str
    remarks: tuple[str, ...]


def served(info: Mapping[str, Any], model: Mapping[str, Any]) -> Served:
    """Read the answers of `/server_info` and `/model_info`; BadInputError where a setting that keys depend on is missing."""
    remarks: list[str] = []
    extra = _extra(info, remarks)
    sglang = str(info.get("version") or "")
    scheme_of(sglang)
    settings: dict[str, Any] = {
        "sglang": sglang,
        "page_size": _number(info, "page_size"),
        "tp_size": _attention_ranks(info),
        "pp_size": _number(info, "pp_size", 1),
        "dcp_size": _number(info, "dcp_size", 1),
        "cp_size": _number(info, "attn_cp_size", 1),
        "model_name": info.get("served_model_name"),
        "tag": None if extra.get("extra_backend_tag") is None else str(extra["extra_backend_tag"]),
        "bigram": info.get("speculative_algorithm") in PAIRS,
        "tp_lcm_size": extra.get("tp_lcm_size") if info.get("hicache_mem_layout") == "page_head" else None,
        "kind": _kind(info, model, remarks),
        "pools": _pools(info, sglang, remarks),
    }
    _look(info, settings, remarks)
    asked = str(info.get("hicache_storage_prefetch_policy"))
    threshold = extra.get("prefetch_threshold", DEFAULT_THRESHOLD)
    return Served(settings, _windows(info), threshold, asked if asked in POLICIES else "timeout", tuple(remarks))


def _number(info: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = info.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInputError(f"the server does not say its {name}: give it as an option, without --server")
    return value


def _attention_ranks(info: Mapping[str, Any]) -> int:
    """Tensor-parallel ranks that share one copy of the attention: all of them, but for attention data parallelism."""
    ranks = _number(info, "tp_size", 1)
    if not info.get("enable_dp_attention"):
        return ranks
    return max(1, ranks // (_number(info, "dp_size", 1) * _number(info, "attn_cp_size", 1)))


def _extra(info: Mapping[str, Any], remarks: list[str]) -> dict[str, Any]:
    text = info.get("hicache_storage_backend_extra_config")
    if not text:
        return {}
    if isinstance(text, str) and text.startswith("@"):
        remarks.append(
            f"the server's extra configuration lies in a file of its own ({text[1:]}): tag, tp_lcm_size and threshold are not known"
        )
        return {}
    try:
        decoded = msgspec.json.decode(text) if isinstance(text, str) else text
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        remarks.append("the server's extra configuration cannot be read: tag, tp_lcm_size and threshold are not known")
        return {}
    return decoded


def _layout(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """What 0.5.22 and later say of their objects (`describe_l3_object_layout`); empty where they do not."""
    outer = info.get("hicache_object_layout")
    inner = outer.get("hicache_object_layout") if isinstance(outer, dict) else None
    return inner if isinstance(inner, dict) else {}


def _kind(info: Mapping[str, Any], model: Mapping[str, Any], remarks: list[str]) -> Kind:
    told = _layout(info).get("is_mla_backend")
    if isinstance(told, bool):
        return Kind.mla if told else Kind.mha
    architectures = model.get("architectures") or []
    if not architectures:
        remarks.append("the server does not say its architecture: kind mha is assumed, --kind mla overrides it")
    return Kind.mla if MLA_ARCHITECTURES & set(architectures) else Kind.mha


def _pools(info: Mapping[str, Any], sglang: str, remarks: list[str]) -> tuple[PoolUse, ...]:
    uses = []
    for each in _layout(info).get("pools") or []:
        name = each.get("pool") if isinstance(each, dict) else None
        if not isinstance(name, str) or name == "kv":
            continue
        try:
            uses.append(pools.parse(name, sglang))
        except UsageError:
            remarks.append(f"the server has a pool {name} that is not known here: its objects are not looked for")
    return tuple(uses)


def _windows(info: Mapping[str, Any]) -> dict[str, int]:
    """How many pages a look-up wants of each pool of which only the end of a prefix is kept."""
    rows = [each for each in _layout(info).get("pools") or [] if isinstance(each, dict)]
    return {str(each["pool"]): each["trailing_pages"] for each in rows if isinstance(each.get("trailing_pages"), int)}


def _look(info: Mapping[str, Any], settings: Mapping[str, Any], remarks: list[str]) -> None:
    """What a reader should know before believing the map."""
    backend = info.get("hicache_storage_backend")
    if backend != "mooncake":
        remarks.append(f"the server's storage backend is {backend or 'none'}, not mooncake: it writes no such keys")
    if not info.get("enable_hierarchical_cache", True):
        remarks.append("the server runs without its hierarchical cache")
    if settings["bigram"]:
        remarks.append("the draft model's own pool is not in the map: --pools draft adds it")
