"""Serves requests with a real engine, each in its own mode; run by `engine.py` under `hicachectl lab exec`: OUT BLOCKS MODE..."""

import os
import random
import sys

TOKENS, NEW = 100, 8
TURNS = 12
"""Requests in one mode, of which the first four are not counted: the interpreter has to learn its ways anew when methods were replaced, and
meanwhile the writer has what the mode before left to it."""


def main():
    """Warm up, then blocks of a few requests in each mode, the order shuffled, all prompts different."""
    import sglang  # noqa: PLC0415 - its child processes import this file again

    blocks, modes = int(sys.argv[2]), sys.argv[3:]
    engine = sglang.Engine(
        model_path=os.environ["HICACHECTL_LAB_MODEL"], device="cpu", load_format="dummy", skip_tokenizer_init=True, attention_backend="torch_native",
        sampling_backend="pytorch", disable_cuda_graph=True, disable_overlap_schedule=True, page_size=16, max_total_tokens=4096,
        enable_hierarchical_cache=True, hicache_ratio=2, hicache_io_backend="direct", hicache_mem_layout="page_first_direct",
        hicache_write_policy="write_through", hicache_storage_backend="mooncake", hicache_storage_prefetch_policy="wait_complete",
        log_level="error",
    )  # fmt: skip
    numbers = random.Random(3)
    sampling = {"max_new_tokens": NEW, "temperature": 0, "ignore_eos": True}
    try:
        for block in range(-3, blocks):
            numbers.shuffle(modes)
            for mode in modes:
                for turn in range(TURNS):
                    prompt = [numbers.randrange(1024) for _ in range(TOKENS)]
                    engine.generate(input_ids=prompt, sampling_params=sampling, rid=f"{mode if block >= 0 else 'warm'}-{block}-{turn}")
    finally:
        engine.shutdown()


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    # The scheduler's process imports this file again, before it loads its plugins.
    from tests.bench.switching import prepare

    prepare(sys.argv[1])
