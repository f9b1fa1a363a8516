"""How costs are measured here: as ratios, a sample between two of its yardstick, the median of many such pairs.

The machines that this runs on change their speed while it runs, so an absolute time says little. A sample whose wall time is well
above its CPU time was disturbed and is taken again.
"""

import os
import platform
import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

DISTURBED = 1.1
"""Wall time over CPU time from which a sample is taken again."""
TRIES = 4
PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-json-file", "typer", "msgspec", "orjson", "sglang", "torch", "mooncake-transfer-engine-non-cuda")

Work = Callable[[int], None]
"""Does the thing so many times."""


@dataclass(frozen=True)
class Figure:
    """One figure, what it is measured against, and what was aimed at."""

    name: str
    value: float
    target: float | None
    unit: str = ""
    spread: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether the target is reached; a figure without one is told for comparison."""
        return self.target is None or (self.value >= self.target if self.at_least else self.value <= self.target)

    def line(self) -> str:
        """The figure in one line."""
        aim = "" if self.target is None else f"{'at least' if self.at_least else 'at most'} {self.target:g}{self.unit}: {'reached' if self.reached else 'NOT REACHED'}"
        return f"{self.name:<72} {self.value:>10.4g}{self.unit:<3} {self.spread:<18} {aim}".rstrip()


def show(figures: Iterable[Figure]) -> None:
    """Print figures."""
    for figure in figures:
        print(figure.line(), flush=True)


def cpu_ns(work: Work, times: int) -> float:
    """CPU nanoseconds of this thread for one of TIMES, taken again when something else had the core."""
    for _ in range(TRIES):
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        work(times)
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        if wall <= cpu * DISTURBED:
            break
    return cpu / times


def ratios(cases: dict[str, tuple[Work, int]], yardstick: tuple[Work, int], rounds: int) -> dict[str, list[float]]:
    """For each case its cost over the mean of the yardsticks before and after it, in every round; the order is shuffled."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    shuffle = random.Random(1).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            before = cpu_ns(*yardstick)
            own = cpu_ns(*cases[name])
            found[name].append(2 * own / (before + cpu_ns(*yardstick)))
    return found


def middle(values: Sequence[float]) -> tuple[float, str]:
    """The median, and the quartiles as text."""
    low, median, high = statistics.quantiles(values, n=4)
    return median, f"[{low:.4g} - {high:.4g}]"


def machine() -> str:
    """What this was measured on, in one paragraph."""
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    build = "with PGO" if "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")) else "without PGO"
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores ({model}), {memory} GiB, {platform.system()} {platform.release()}; Python {platform.python_version()} {build}; {', '.join(versions)}; load {load:.1f}"


def pin() -> None:
    """Stay on one core, so that samples are comparable."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})


def quick() -> bool:
    """Whether a short run is wanted, as a check that the benchmarks work at all."""
    return "--quick" in sys.argv
