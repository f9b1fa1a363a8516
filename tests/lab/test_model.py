"""The tiny model."""

import json
from pathlib import Path

import invoke


def test_lab_model_writes_a_folder_that_names_a_llama(tmp_path: Path) -> None:
    """One file, made with its folder; its path is the data; a second write is the same."""
    for _ in range(2):
        done = invoke.hicachectl("lab", "model", str(tmp_path / "a" / "b"))
        assert done.returncode == 0
        assert done.stdout == f"{tmp_path}/a/b/config.json\n"
    config = json.loads((tmp_path / "a" / "b" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["hidden_size"] == config["num_attention_heads"] * config["head_dim"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["config.json"]


def test_as_json_it_is_one_document(tmp_path: Path) -> None:
    """Absolute paths under the command's schema."""
    found = invoke.document(invoke.hicachectl("lab", "model", str(tmp_path), "-o", "json"))
    assert found == {"schema": "hicachectl/lab-model/1", "model": str(tmp_path), "file": f"{tmp_path}/config.json"}


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    """Exit 3, the path, no traceback."""
    (tmp_path / "file").touch()
    done = invoke.hicachectl("lab", "model", str(tmp_path / "file" / "model"))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert str(tmp_path) in done.stderr
