"""How long a million page keys take, beside the bare hash loop over the same bytes.

Run alone: python -m tests.bench.keys [PAGES]
"""

import hashlib
import random
import sys
from array import array

from hicachectl.keys.page import page_keys
from tests.bench.pairs import Figure, middle, pin, quick, ratios, show

PAGE_SIZE = 64
TARGET = 1.4


def bare(data: bytes, size: int) -> bytes:
    """The chain alone: a digest a page of what came before and of the page's bytes; the last one."""
    prior = b""
    for start in range(0, len(data), size):
        digest = hashlib.sha256(prior)
        digest.update(data[start : start + size])
        prior = digest.digest()
    return prior


def main() -> None:
    """Print the ratio of both, whose last page has the same key."""
    pin()
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    pages = numbers[0] if numbers else 50_000 if quick() else 1_000_000
    tokens = array("I", random.Random(0).randbytes(pages * PAGE_SIZE * 4))
    data = tokens.tobytes()
    assert page_keys(tokens, PAGE_SIZE, sglang="0.5.14")[-1] == bare(data, PAGE_SIZE * 4).hex()
    own = (lambda times: [page_keys(tokens, PAGE_SIZE, sglang="0.5.14") for _ in range(times)] and None, 1)
    yardstick = (lambda times: [bare(data, PAGE_SIZE * 4) for _ in range(times)] and None, 1)
    median, spread = middle(ratios({"keys": own}, yardstick, 3 if quick() else 5)["keys"])
    show([Figure(f"{pages:,} page keys of {PAGE_SIZE} tokens, of a bare hashlib loop", median, TARGET, " x", spread)])


if __name__ == "__main__":
    main()
