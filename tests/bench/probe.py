"""The bandwidth that a probe tells, against a bare loop of the same calls in the same client, on a real store.

Run alone: python -m tests.bench.probe
"""

import importlib.util
import sys

from hicachectl.lab import store as lab_store
from hicachectl.mooncake.client import ClientSettings
from hicachectl.mooncake.probe.plan import Plan
from hicachectl.mooncake.probe.report import Bench
from hicachectl.mooncake.probe.run import probe
from tests.bench.pairs import Figure, middle, quick, show

SEGMENT = 256 << 20
TARGET = 0.9
PROBES = 5


def measured(store: lab_store.Store) -> list[Bench]:
    """Both directions of one probe, round by round: the probe's call and the bare one of a round follow each other, and take turns at being first."""
    settings = ClientSettings(store.master, local_hostname="127.0.0.1")
    pages, repeat = (16, 1) if quick() else (128, 8)
    report = probe(Plan(settings, bench=True, tensors=False, pages=pages, repeat=repeat))
    if report.failed or report.left_behind:
        sys.exit(f"the probe did not go right: {report.failed} {report.left_behind}")
    return report.bench


def main() -> None:
    """Print the figures: the median over all rounds of all probes, each round's call against the bare one beside it."""
    if importlib.util.find_spec("mooncake") is None:
        print("The Mooncake client is not installed beside this Python: a probe is not measured")
        return
    with lab_store.running(segment=SEGMENT) as store:
        rows = [row for _ in range(1 if quick() else PROBES) for row in measured(store)]
    figures = []
    for step in dict.fromkeys(row.step for row in rows):
        pairs = [bare / own for row in rows if row.step == step for own, bare in zip(row.seconds, row.bare_seconds, strict=True)]
        median, spread = middle(pairs)
        speed = max(row.gb_per_s for row in rows if row.step == step)
        figures.append(Figure(f"{step}, bandwidth that the probe tells, of a bare loop", median, TARGET, " x", spread, at_least=True))
        figures.append(Figure(f"... {len(pairs)} rounds, the fastest", speed, None, " GB/s"))
    show(figures)


if __name__ == "__main__":
    main()
