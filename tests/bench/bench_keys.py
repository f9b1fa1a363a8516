"""How long a million page keys take, beside the bare hash loop over the same bytes: `python tests/bench/bench_keys.py [PAGES]`."""

import hashlib
import random
import sys
import time
from array import array
from collections.abc import Callable

from hicachectl.keys.page import page_keys

PAGE_SIZE = 64
BOUND = 1.4
ROUNDS = 5


def bare(data: bytes, size: int) -> None:
    """The chain alone: a digest a page of what came before and of the page's bytes."""
    prior = b""
    for start in range(0, len(data), size):
        digest = hashlib.sha256(prior)
        digest.update(data[start : start + size])
        prior = digest.digest()


def seconds(work: Callable[[], object]) -> float:
    """How long WORK takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    """Print both times, alternating, and their ratio; 1 where the ratio of the best rounds is above the bound."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    tokens = array("I", random.Random(0).randbytes(pages * PAGE_SIZE * 4))
    data = tokens.tobytes()
    best = {"bare": float("inf"), "keys": float("inf")}
    for turn in range(ROUNDS):
        best["bare"] = min(best["bare"], took_bare := seconds(lambda: bare(data, PAGE_SIZE * 4)))
        best["keys"] = min(best["keys"], took_keys := seconds(lambda: page_keys(tokens, PAGE_SIZE, sglang="0.5.14")))
        print(
            f"round {turn + 1}: bare loop {took_bare:.2f} s, page keys {took_keys:.2f} s, ratio {took_keys / took_bare:.2f}"
        )
    ratio = best["keys"] / best["bare"]
    print(
        f"{pages} page keys of {PAGE_SIZE} tokens: {best['keys']:.2f} s, bare loop {best['bare']:.2f} s, ratio {ratio:.2f} (at most {BOUND})"
    )
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
