"""What a probe is asked to do: sizes, counts, limits, and where the store is."""

import uuid
from dataclasses import dataclass, field

from hicachectl.mooncake.client import CALL_TIMEOUT_S, ClientSettings
from hicachectl.mooncake.probe.rows import Keys, Row, Stage

PREFIX = "hicachectl-probe"
SMALLEST_BUFFER = 1 << 16
"""Bytes of each buffer at least: the steps whose objects have a size of their own need them."""
BENCH_ROUNDS = 24
BENCH_ROUNDS_AT_MOST = 150
BENCH_QUIET_ROUNDS = 12
"""With --bench, the batches are repeated until so many rounds in a row were no faster than the ones before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A probe to run. Every key begins with `hicachectl-probe-` and digits of this run alone."""

    settings: ClientSettings
    size: int = 64 << 10
    """Bytes of one object; a page is two of them."""
    pages: int = 128
    repeat: int = 8
    timeout: float = CALL_TIMEOUT_S
    bench: bool = False
    tensors: bool = True
    admin_port: int | None = None
    """The admin port where somebody configured it."""
    admin_url: str | None = None
    """The admin port's whole URL where the user gives it."""
    watermark: float | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:16])

    @property
    def batch_bytes(self) -> int:
        """Bytes of one round of page-sized objects: the most that ever lies in the store for this probe."""
        return 2 * self.pages * self.size

    @property
    def buffer_bytes(self) -> int:
        """Bytes of each of the two buffers."""
        return max(self.batch_bytes, SMALLEST_BUFFER)

    def rounds(self, stage: Stage) -> int:
        """How often the stage's rows run, at least."""
        if stage.benched and self.bench:
            return max(self.repeat, BENCH_ROUNDS)
        return self.repeat if stage.repeated else 1

    def rounds_at_most(self, stage: Stage) -> int:
        """How often they may run, where the fastest round is sought."""
        return max(self.rounds(stage), BENCH_ROUNDS_AT_MOST) if stage.benched and self.bench else self.rounds(stage)

    def keys(self, row: Row, turn: int) -> list[str]:
        """The own keys of a row's call in round TURN."""
        stem = f"{PREFIX}-{self.run}-{row.family}-{turn}"
        if row.keys is Keys.one:
            return [stem]
        if row.keys is Keys.pages:
            return [f"{stem}-{page}" for page in range(self.pages)]
        if row.keys is Keys.parts:
            return [f"{stem}-{page}_{part}" for page in range(self.pages) for part in "kv"]
        return []

    def object_bytes(self, row: Row) -> int:
        """Bytes of each object of a row's call."""
        if row.objects_of:
            return row.objects_of
        return 2 * self.size if row.keys is Keys.pages else self.size
