"""The demo's scenarios: what is asked of which engine, and what the recording must then show.

Run as a module (`python -m hicachectl.lab.scenarios`) inside `hicachectl lab exec`, it drives the real engine; the table
alone is what the `demo` command reads afterwards. Progress goes to stdout, one line a step.
"""

import os
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PATIENCE_S = 30.0
SETTLE_S = 1.0
"""After a request: the backup thread writes its pages to the store."""
VOCABULARY = 1024
PROMPT, SHORT, TINY = 597, 200, 9


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: its id and the prompt, named by seed and length so that two asks can share it; `flush` empties the engine first."""

    rid: str
    seed: int
    tokens: int
    flush: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One engine process: its page size, the store settings on top of the environment's, and what it is asked in turn."""

    title: str
    page_size: int
    asks: tuple[Ask, ...]
    extra_config: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One state that the demo shows: the request that shows it, and the rungs, reused tokens and claims that it must have."""

    name: str
    rid: str
    says: str
    ladder: Mapping[str, str]
    reused: Mapping[str, int]
    claims: Mapping[str, int] = field(default_factory=dict)
    claims_now: Mapping[str, int] | None = None
    """What the engine claims from SGLang 0.5.23 on, where that differs."""
    lost: Mapping[str, int] = field(default_factory=dict)
    written_by_another: bool = False


RUNS: tuple[Run, ...] = (
    Run(
        "first engine, page size 16",
        16,
        (Ask("demo-created-only", 1, SHORT), Ask("demo-writes", 2, PROMPT), Ask("demo-reused", 2, PROMPT, flush=True)),
    ),
    Run(
        "engine with page size 4 and a prefetch threshold of 4",
        4,
        (Ask("demo-writes-8-tokens", 3, TINY), Ask("demo-transferred-not-reused", 3, TINY, flush=True)),
        '{"prefetch_threshold": 4}',
    ),
    Run("second engine, which never saw the prompt", 16, (Ask("demo-second-engine", 2, PROMPT),)),
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "created_only",
        "demo-created-only",
        "the backend exists; the prompt is below the prefetch threshold, so the store is not asked",
        {"backend_created": "yes", "found": "not_asked", "transfer_done": "not_asked", "prefix_reused": "no"},
        {"device": 0, "host": 0, "storage": 0},
    ),
    Scenario(
        "transferred_not_reused",
        "demo-transferred-not-reused",
        "8 tokens came from the store to the host; the load-back minimum declines them (0.5.14 claims them all the same)",
        {
            "backend_created": "yes",
            "found": "yes",
            "transfer_done": "yes",
            "published": "yes",
            "loaded_back": "no",
            "prefix_reused": "no",
        },
        {"device": 0, "host": 0, "storage": 0},
        claims={"storage": 8},
        claims_now={"storage": 0},
        lost={"HC-L02": 8},
    ),
    Scenario(
        "reused",
        "demo-reused",
        "after a flush, 592 of 597 tokens come back from the store and the prefill runs with them",
        {
            "backend_created": "yes",
            "found": "yes",
            "transfer_done": "yes",
            "published": "yes",
            "loaded_back": "yes",
            "prefix_reused": "yes",
        },
        {"device": 0, "host": 0, "storage": 592},
        claims={"storage": 592},
    ),
    Scenario(
        "reused_by_second_engine",
        "demo-second-engine",
        "another engine process reuses what the first one wrote",
        {
            "backend_created": "yes",
            "found": "yes",
            "transfer_done": "yes",
            "published": "yes",
            "loaded_back": "yes",
            "prefix_reused": "yes",
        },
        {"device": 0, "host": 0, "storage": 592},
        written_by_another=True,
    ),
)


def prompt(ask: Ask) -> list[int]:
    """The token ids of an ask."""
    numbers = random.Random(ask.seed)  # noqa: S311 - a prompt, not a secret
    return [numbers.randrange(VOCABULARY) for _ in range(ask.tokens)]


def engine_arguments(run: Run) -> dict[str, Any]:
    """Arguments of `sglang.Engine` for a run beside the lab's store."""
    from hicachectl.lab import gpu  # noqa: PLC0415 - this module is also read where nothing is run

    arguments: dict[str, Any] = {
        "model_path": os.environ["HICACHECTL_LAB_MODEL"],
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "disable_cuda_graph": True,
        "page_size": run.page_size,
        "max_total_tokens": 4096,
        "enable_hierarchical_cache": True,
        "hicache_ratio": 2,
        "hicache_write_policy": "write_through",
        "hicache_storage_backend": "mooncake",
        "hicache_storage_prefetch_policy": "wait_complete",
        "hicache_io_backend": "direct",
        "hicache_mem_layout": "page_first_direct",
        "enable_cache_report": True,
        "log_level": "warning",
    }
    if not gpu.present():
        arguments |= {
            "device": "cpu",
            "attention_backend": "torch_native",
            "sampling_backend": "pytorch",
            "disable_overlap_schedule": True,
        }
    if run.extra_config:
        # It names no master, so the environment stays the source of the store's settings.
        arguments["hicache_storage_backend_extra_config"] = run.extra_config
    return arguments


def drive(run: Run) -> None:
    """Start one engine, ask it, and end it."""
    import sglang  # noqa: PLC0415 - only where an engine is run

    _say(f"starting the {run.title}")
    engine = sglang.Engine(**engine_arguments(run))
    try:
        for ask in run.asks:
            if ask.flush:
                _flush(engine)
            answer = engine.generate(
                input_ids=prompt(ask),
                sampling_params={"max_new_tokens": 2, "temperature": 0, "ignore_eos": True},
                rid=ask.rid,
            )
            told = answer["meta_info"]
            _say(f"  {ask.rid}: {ask.tokens} prompt tokens, the engine returns cached_tokens {told['cached_tokens']}")
            time.sleep(SETTLE_S)
    finally:
        engine.shutdown()


def _flush(engine: Any) -> None:
    """Empty the device and the host; the engine refuses while it still writes, so ask again."""
    deadline = time.monotonic() + PATIENCE_S
    while not engine.flush_cache().success and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for each in RUNS:
        drive(each)
