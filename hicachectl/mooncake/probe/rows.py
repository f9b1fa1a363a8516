"""The steps of a probe, one row a call, in stages that the interpreter runs in turn."""

from dataclasses import dataclass, replace
from enum import Enum

from hicachectl.release import Release


class Keys(str, Enum):
    """Which own keys a row's call gets."""

    none = "none"
    one = "one"
    pages = "pages"
    """One a page: K and V lie in one object of two parts."""
    parts = "parts"
    """Two a page: K and V are objects of their own, as MooncakeStore writes them."""


class Expect(str, Enum):
    """What every code of an answer has to be for the step to be right."""

    zero = "0"
    yes = "1"
    no = "0, not there"
    size = "the object's bytes, equal to what was put"
    missing = "-704"
    refused = "-600"


class Needs(str, Enum):
    """What must be there for a row to be run at all; where it is not, the step is left out."""

    nothing = "nothing"
    multi_buffers = "batch_put_from_multi_buffers"
    tensors = "put_tensor"


@dataclass(frozen=True, slots=True)
class Row:
    """One call. Rows that share a step's name are one step. `shown` false: what the steps need, reported only when it fails."""

    step: str
    call: str
    expect: Expect = Expect.zero
    keys: Keys = Keys.none
    family: str = ""
    objects_of: int = 0
    """Bytes of an object where the row fixes them; 0: --size, twice that for an object of a whole page."""
    elements: int | None = None
    shown: bool = True
    since: str = ""
    until: str = ""
    """First release of the client in which the row is right, and the first in which it is not; empty: no bound."""

    def applies(self, release: str) -> bool:
        """Whether the row is right for this release; a row with a bound is not for a client of unknown release."""
        if not self.since and not self.until:
            return True
        if not release:
            return False
        asked = Release.of(release)
        return (not self.since or Release.of(self.since) <= asked) and (
            not self.until or asked < Release.of(self.until)
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows that belong together: a bad answer ends the stage, and its keys are removed at the end of each round."""

    name: str
    rows: tuple[Row, ...]
    repeated: bool = False
    writes: bool = True
    needs: Needs = Needs.nothing
    benched: bool = False
    """With --bench, each round is followed by the same calls in a bare loop."""

    def of(self, release: str) -> "Stage":
        """The stage with the rows alone that are right for this release."""
        return replace(self, rows=tuple(row for row in self.rows if row.applies(release)))


WARM_UP_BYTES = 4096
TENSOR_ELEMENTS = 4096

CONNECT = Stage("connect", (Row("setup", "setup"),), writes=False)

STAGES: tuple[Stage, ...] = (
    Stage("buffers", (Row("register", "arena_of"),), writes=False),
    Stage(
        "missing",
        (
            Row("exists_missing", "is_exist", Expect.no, Keys.one, "missing", WARM_UP_BYTES),
            Row("get_missing", "get_into", Expect.missing, Keys.one, "missing", WARM_UP_BYTES),
        ),
        writes=False,
    ),
    Stage(
        "warm_up",
        (
            Row("warm_up", "put", Expect.zero, Keys.one, "warm-up", WARM_UP_BYTES),
            Row("warm_up", "is_exist", Expect.yes, Keys.one, "warm-up", WARM_UP_BYTES),
            Row("warm_up", "get", Expect.size, Keys.one, "warm-up", WARM_UP_BYTES),
        ),
    ),
    Stage(
        "single",
        (
            Row("put", "put", Expect.zero, Keys.one, "one"),
            Row("exists", "is_exist", Expect.yes, Keys.one, "one"),
            Row("get_into", "get_into", Expect.size, Keys.one, "one"),
        ),
        repeated=True,
    ),
    Stage(
        "existing",
        (
            Row("put_existing", "put", Expect.zero, Keys.one, "again", WARM_UP_BYTES),
            Row("put_existing", "put_blank", Expect.zero, Keys.one, "again", WARM_UP_BYTES),
            Row("put_existing", "get", Expect.size, Keys.one, "again", WARM_UP_BYTES),
            Row("get_too_small", "get_into", Expect.refused, Keys.one, "again", WARM_UP_BYTES // 4),
        ),
    ),
    Stage(
        "pages",
        (
            Row("batch_put", "batch_put_from", Expect.zero, Keys.parts, "page"),
            Row("batch_exists", "batch_is_exist", Expect.yes, Keys.parts, "page"),
            Row("batch_get", "batch_get_into", Expect.size, Keys.parts, "page"),
        ),
        repeated=True,
        benched=True,
    ),
    Stage(
        "multi_buffers",
        (
            Row("multi_put", "batch_put_from_multi_buffers", Expect.zero, Keys.pages, "multi"),
            Row("multi_get", "batch_get_into_multi_buffers", Expect.size, Keys.pages, "multi"),
        ),
        repeated=True,
        needs=Needs.multi_buffers,
    ),
    Stage(
        "tensors",
        (
            Row("load_torch", "load_torch", shown=False),
            Row("tensor_put", "put_tensor", Expect.zero, Keys.one, "tensor", elements=TENSOR_ELEMENTS),
            Row("tensor_get", "get_tensor", Expect.zero, Keys.one, "tensor", elements=TENSOR_ELEMENTS),
            # Mooncake #2470, first in 0.3.12: a tensor without elements is an object of a header alone.
            Row("tensor_empty", "put_tensor", Expect.refused, Keys.one, "empty", elements=0, until="0.3.12"),
            Row("tensor_empty", "put_tensor", Expect.zero, Keys.one, "empty", elements=0, since="0.3.12"),
            Row("tensor_empty", "get_tensor", Expect.zero, Keys.one, "empty", elements=0, since="0.3.12"),
        ),
        needs=Needs.tensors,
    ),
)
"""After CONNECT, in this order: what only reads comes first, so that a store that takes no put is still asked."""
