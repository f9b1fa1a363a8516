"""A tiny model with compressed KV (MLA): what SGLang takes for a MiniCPM3, with weights of noise; for tests that want an engine whose ranks hold the same KV."""

import json
from pathlib import Path

LAYERS, HIDDEN, HEADS, INNER, WORDS = 2, 128, 4, 256, 1024
Q_RANK, KV_RANK, NOPE, ROPE = 64, 32, 16, 16
CONFIG = {
    "architectures": ["MiniCPM3ForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN,
    "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": WORDS, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False,
    "q_lora_rank": Q_RANK, "kv_lora_rank": KV_RANK, "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "scale_emb": 1, "scale_depth": 1.4, "dim_model_base": 64,
}  # fmt: skip
VALUE = HIDDEN // HEADS
LAYER = {
    "input_layernorm": (HIDDEN,),
    "post_attention_layernorm": (HIDDEN,),
    "self_attn.q_a_proj": (Q_RANK, HIDDEN),
    "self_attn.q_a_layernorm": (Q_RANK,),
    "self_attn.q_b_proj": (HEADS * (NOPE + ROPE), Q_RANK),
    "self_attn.kv_a_proj_with_mqa": (KV_RANK + ROPE, HIDDEN),
    "self_attn.kv_a_layernorm": (KV_RANK,),
    "self_attn.kv_b_proj": (HEADS * (NOPE + VALUE), KV_RANK),
    "self_attn.o_proj": (HIDDEN, HEADS * VALUE),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}


def write(folder: Path) -> None:
    """Write configuration and weights into FOLDER. SGLang makes parts of this model from its weights as they are read, so that it takes no dummy ones."""
    import torch  # noqa: PLC0415 - beside an engine alone
    from safetensors.torch import save_file  # noqa: PLC0415

    shapes = {"model.embed_tokens": (WORDS, HIDDEN), "model.norm": (HIDDEN,), "lm_head": (WORDS, HIDDEN)}
    shapes |= {f"model.layers.{layer}.{name}": shape for layer in range(LAYERS) for name, shape in LAYER.items()}
    noise = torch.Generator().manual_seed(7)
    made = {f"{name}.weight": (torch.randn(shape, generator=noise) * 0.05).to(torch.bfloat16) for name, shape in shapes.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(made, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
