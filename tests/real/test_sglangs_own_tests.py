"""SGLang's own tests of its cache, as far as its wheels carry them and a machine without a GPU can run them: the same with tracers on and off.

The wheels carry few: `docs/recording.md` lists what was looked at.
"""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import engines
import invoke
import pytest
import verdicts
from installed import needs

from hicachectl.store import read
from tracers import vocabulary as v

pytestmark = pytest.mark.real

STORE_TESTS = "sglang.srt.mem_cache.storage.mooncake_store.test_mooncake_store"
CASES = 5
"""What the module runs as a program: one object, and batches of four layouts."""
RUN = f"""
import runpy
from sglang.srt.plugins import load_plugins
load_plugins()
runpy.run_module("{STORE_TESTS}", run_name="__main__")
"""


def sglangs_store_tests(run: Path | None) -> tuple[int, list[str]]:
    """Run them beside a store of their own: exit code, and what they say of each case."""
    words = invoke.argv("lab", "exec", "--", sys.executable, "-c", RUN)
    environment = invoke.environment({"HICACHECTL_TRACE": str(run)} if run else {"HICACHECTL_OFF": "1"})
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    said = [line.rpartition(" - ")[2] for line in (done.stdout + done.stderr).splitlines()]
    return done.returncode, [line for line in said if line.startswith(("Testing", "✅", "❌")) or "Error" in line]


def test_the_backends_own_tests_have_the_same_outcomes(tmp_path: Path) -> None:
    """Single and batched set, exists and get of `MooncakeStore`, with and without split ranks: all pass, and the tracers saw every object."""
    needs("sglang", "mooncake")
    off, on = sglangs_store_tests(None), sglangs_store_tests(tmp_path / "run")
    assert on == off
    assert off[0] == 0
    assert sum(line.startswith("Testing") for line in off[1]) == CASES
    assert sum("passed" in line for line in off[1]) == CASES + 1
    recording = read([tmp_path / "run"])
    spans = [span for span in recording.spans if "warmup" not in str(span.attributes.get(v.OBJECT_KEYS))]
    for name in (v.STORE_PUT, v.STORE_GET):
        calls = [span for span in spans if span.name == name]
        assert len(calls) == CASES
        assert all(span.attributes[v.OBJECTS_OK] == span.attributes[v.OBJECTS] for span in calls)
    assert [ledger.faulty for ledger in recording.ledgers.values()] == [[] for _ in recording.ledgers]


def kit() -> ModuleType:
    """The module of SGLang's test of its prefix tree, by its file, so that the engine is not imported here."""
    spec = importlib.util.find_spec("sglang")  # of a top-level name: imports nothing
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "test" / "kits" / "radix_cache_server_kit.py"
    made = importlib.util.spec_from_file_location("radix_cache_server_kit", path)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_prefix_trees_own_test_has_the_same_answers(tmp_path: Path) -> None:
    """The prompts of SGLang's radix attention test, branching and shuffled, in this model's vocabulary: each answered as without tracing."""
    needs("sglang", "mooncake")
    random.seed(5)
    nodes: list[dict[str, Any]] = kit().gen_radix_tree(num_nodes=40, chunk_len=48)
    prompts = [[token % 1000 for token in node["input_ids"]][:1500] for node in nodes]
    steps = [engines.generate(prompt, new=min(4, 1 + node["decode_len"]), rid=f"node-{place}") for place, (node, prompt) in enumerate(zip(nodes, prompts, strict=True))]
    plan = [*steps[:20], engines.flush(), *steps[20:]]
    run = tmp_path / "run"
    off = engines.play(plan)
    on = engines.play(plan, before=("trace", "--run", str(run), "--"))
    told = ("rid", "output", "prompt_tokens", "cached_tokens", "details")
    assert [{name: answer[name] for name in told} for answer in on.answers()] == [{name: answer[name] for name in told} for answer in off.answers()]
    document = verdicts.explained(run)
    assert {row["rid"]: verdicts.reused(row) for row in document["requests"]} == {answer["rid"]: answer["cached_tokens"] for answer in on.answers()}
