"""An encoder with one row of two attributes, the values to give it, and the reader that takes its lines apart again."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from hicachectl.store.lines import Decoder
from hicachectl.store.span import Span
from tracers import vocabulary as v
from tracers.encode import Encoder, Shape, attribute, line
from tracers.record import Late, Record

KEYS = ("a", "b")
THREAD = (7, "MainThread")
patient = settings(deadline=None)
"""For a machine that is busy with other things."""


class Desk:
    """An encoder for two attributes, and whom it blamed."""

    def __init__(self, keys: tuple[str, ...] = KEYS) -> None:
        self.blamed: list[tuple[str, str]] = []
        self.released: list[Late] = []
        self.encoder = Encoder({"p": Shape(v.FLUSH, keys), "q": Shape(v.RESET, ())}, lambda point, fault: self.blamed.append((point, type(fault).__name__)), self.released.append)
        self.encoder.rename("host:1:2")

    def line(self, *records: Record) -> bytes:
        """The records as one export request."""
        return line(attribute(v.R_ENGINE, "host:1:2"), '{"name":"s"}', self.encoder.spans_of(records))

    def spans(self, *records: Record) -> list[Span]:
        """The records, written and read again."""
        return Decoder().spans(self.line(*records))


def record(values: Any, point: str = "p", **told: Any) -> Record:
    """A record of a call."""
    row = {"start": 1_700_000_000_000_000_001, "end": 1_700_000_000_000_000_999, "number": 5, "parent": 0, "rid": None, "thread": THREAD, "error": None, **told}
    return (point, row["start"], row["end"], row["number"], row["parent"], row["rid"], row["thread"], values, row["error"])


texts = st.text(st.characters(exclude_categories=())) | st.sampled_from(["", "\ud800", '"}],"spanId":"', "\\", "%s%d{0}", "\x00\n\x7f", "é😀"])
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
scalars = texts | numbers | st.booleans() | st.floats(allow_nan=False)
anything = scalars | st.none() | st.lists(scalars, max_size=4) | st.tuples(scalars, scalars)


def as_written(value: Any) -> Any:
    """What a value is read back as: half surrogate pairs are escaped, tuples are lists."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return [as_written(each) for each in value] if isinstance(value, (list, tuple)) else value
