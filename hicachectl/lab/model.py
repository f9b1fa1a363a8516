"""The tiny model: a folder that SGLang takes for a Llama; weights are made up at load (`load_format="dummy"`)."""

import json
from pathlib import Path
from typing import Any

from hicachectl.exits import UnreachableError

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 4,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1024,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}


def write(folder: Path) -> Path:
    """Write the model into FOLDER, made where absent; the path of its one file. UnreachableError where that is not possible."""
    path = folder / "config.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(CONFIG, indent=2) + "\n")
    except OSError as error:
        raise UnreachableError(f"the model cannot be written to {path}: {error.strerror}") from error
    return path
