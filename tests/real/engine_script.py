"""Plays a plan with a real engine; run as `engine_script.py PLAN.json` under `hicachectl lab exec`, prints one JSON line a step."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

DEFAULTS = {
    "device": "cpu",
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "page_size": 16,
    "max_total_tokens": 4096,
    "enable_hierarchical_cache": True,
    "hicache_ratio": 2,
    "hicache_io_backend": "direct",
    "hicache_mem_layout": "page_first_direct",
    "hicache_write_policy": "write_through",
    "hicache_storage_backend": "mooncake",
    "hicache_storage_prefetch_policy": "wait_complete",
    "enable_cache_report": True,
}
PATIENCE_S = 30.0


def main():
    """Start the engine of the plan, run its steps, shut it down."""
    import sglang  # noqa: PLC0415 - its child processes import this file again and do not need it

    plan = json.loads(Path(sys.argv[1]).read_text())
    settings = {"model_path": os.environ["HICACHECTL_LAB_MODEL"], **DEFAULTS, **plan["engine"]}
    engine = sglang.Engine(**settings)
    try:
        for step in plan["steps"]:
            print(
                json.dumps({**step, **STEPS[step["do"]](engine, **{k: v for k, v in step.items() if k != "do"})}),
                flush=True,
            )
    finally:
        engine.shutdown()


def generate(engine, prompt, new=4, rid=None, salt=None):
    """One request; PROMPT is a list of token ids."""
    sampling = {"max_new_tokens": new, "temperature": 0, "ignore_eos": True}
    more = {} if salt is None else {"cache_salt": salt}
    meta = (answer := engine.generate(input_ids=prompt, sampling_params=sampling, rid=rid, **more))["meta_info"]
    return {
        "rid": meta["id"],
        "output": answer["output_ids"],
        "prompt_tokens": meta["prompt_tokens"],
        "cached_tokens": meta["cached_tokens"],
        "details": meta.get("cached_tokens_details"),
    }


def together(engine, prompts, rids, new=4):
    """Several requests at once; what each of them answered."""
    sampling = {"max_new_tokens": new, "temperature": 0, "ignore_eos": True}
    answers = engine.generate(input_ids=prompts, sampling_params=sampling, rid=rids)
    return {"answers": [{"rid": a["meta_info"]["id"], "output": a["output_ids"], "cached_tokens": a["meta_info"]["cached_tokens"]} for a in answers]}


def written(engine, objects):
    """Wait until the store has OBJECTS objects of the engine; how many it has."""
    deadline = time.monotonic() + PATIENCE_S
    while len(have := keys()) < objects and time.monotonic() < deadline:
        time.sleep(0.05)
    return {"have": len(have)}


def forget(engine, part, objects):
    """Remove the objects with PART in their key, once no lease holds them; how many there were."""
    from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415 - this process is no engine

    client = MooncakeDistributedStore()
    master, kib = os.environ["MOONCAKE_MASTER"], 1 << 10
    assert client.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 * kib * kib, "tcp", "", master) == 0
    mine = [key for key in keys() if part in key]
    assert len(mine) == objects, mine
    deadline = time.monotonic() + PATIENCE_S
    while any(part in key for key in keys()) and time.monotonic() < deadline:
        for key in mine:
            client.remove(key)
        time.sleep(0.5)
    client.close()
    return {"left": [key for key in keys() if part in key]}


def flush(engine):
    """Empty the device and the host tier; the engine refuses while it still writes, so ask again."""
    deadline = time.monotonic() + PATIENCE_S
    while not (done := engine.flush_cache().success) and time.monotonic() < deadline:
        time.sleep(0.1)
    return {"flushed": done}


def wait(engine, seconds):
    """Let SECONDS pass."""
    time.sleep(seconds)
    return {}


def environment(engine, names):
    """The values of environment variables in this process."""
    return {"values": {name: os.environ.get(name) for name in names}}


def keys():
    """Object keys in the store, without those of warm-up."""
    host = os.environ["MOONCAKE_MASTER"].partition(":")[0]
    url = f"http://{host}:{os.environ['MOONCAKE_MASTER_METRICS_PORT']}/get_all_keys"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return [key for key in answer.read().decode().split("\n") if key and "warmup" not in key]


def list_keys(engine):
    """All object keys, sorted."""
    return {"keys": sorted(keys())}


STEPS = {
    "generate": generate,
    "together": together,
    "written": written,
    "flush": flush,
    "forget": forget,
    "wait": wait,
    "environment": environment,
    "keys": list_keys,
}

if __name__ == "__main__":
    main()
