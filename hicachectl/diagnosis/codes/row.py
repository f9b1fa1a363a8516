"""What a row of the catalogue is, and the words that its fields may hold."""

from collections.abc import Mapping
from string import Formatter
from typing import Literal, NamedTuple

from tracers.vocabulary import SPANS

Level = Literal["error", "warning", "info"]
Detected = Literal["real", "recording", "no"]
Versions = Literal["0.5.14 and 0.5.23", "0.5.14", "0.5.23", "0.5.14 beside 0.5.23", "0.5.23, or 0.5.14 beside it"]

BOTH: Versions = "0.5.14 and 0.5.23"
V14: Versions = "0.5.14"
V23: Versions = "0.5.23"
MIXED: Versions = "0.5.14 beside 0.5.23"
V23_OR_MIXED: Versions = "0.5.23, or 0.5.14 beside it"

LEVELS: tuple[Level, ...] = ("error", "warning", "info")

# Where a cause of each letter sits; also the order in which causes rank.
LETTERS: dict[str, str] = {
    "A": "configuration and attach",
    "K": "keys that cannot match",
    "W": "write path",
    "E": "eviction",
    "R": "prefetch",
    "L": "load back",
    "G": "admission and attribution",
    "P": "prefill/decode disaggregation",
    "X": "buffer mode and external linker",
}

PROOF: dict[Detected, str] = {"real": "provoked for real", "recording": "on a recording", "no": "not yet detected"}

# What `needs` may hold besides the vocabulary's spans: evidence that no hook point takes down yet.
PD_TRANSFER = "disaggregation.transfer"
BUFFER_MODE = "hicache.buffer_mode"
LINKER = "hicache.linker"

EVIDENCE: dict[str, str] = {
    **SPANS,
    PD_TRANSFER: "a room of a prefill/decode pair: states, reasons, bytes (no hook point yet)",
    BUFFER_MODE: "queue and staging steps of the buffer-only host mode (no hook point yet)",
    LINKER: "lookup, load and offload of the external linker (no hook point yet)",
}


class Code(NamedTuple):
    """One finding code: what it says, what it needs, what to do about it.

    `title` is a sentence fragment with `str.format` fields filled from a finding's arguments; `plain` says the same
    without them. `level_if_serving` is the level when the fault did not stop the backend. `detected` is how far the
    code has been provoked, `versions` where it can occur.
    """

    id: str
    level: Level
    plain: str
    title: str
    needs: tuple[str, ...]
    next: str
    detected: Detected = "no"
    versions: Versions = BOTH
    level_if_serving: Level | None = None
    why_not: str = ""
    """Why no rule can tell it, where none can."""

    @property
    def letter(self) -> str:
        """The letter of the id: which part of the way it belongs to."""
        return self.id[3]

    @property
    def number(self) -> int:
        """The number of the id."""
        return int(self.id[4:])

    @property
    def fields(self) -> tuple[str, ...]:
        """The arguments that the title wants, in the order of the sentence."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.title) if name)

    @property
    def proof(self) -> str:
        """How far this code has been provoked, in words; a code of one version alone says so."""
        words = f"{PROOF[self.detected]}{f': {self.why_not}' if self.why_not else ''}"
        return words if self.detected != "no" or self.versions == BOTH else f"{words} (only SGLang {self.versions})"

    def titled(self, args: Mapping[str, object]) -> str:
        """The title filled from ARGS; the plain title when an argument that it wants is missing."""
        if any(args.get(name) is None for name in self.fields):
            return self.plain
        return self.title.format_map(args)
