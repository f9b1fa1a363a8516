"""Parquet: a row a span, a typed column for each attribute of the vocabulary; written in batches, never whole in memory."""

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hicachectl.exits import UnreachableError
from hicachectl.store import Span, Value, kinds
from hicachectl.store.requests import decoded

BATCH = 8192
"""Spans held in memory; a row group of the file."""
SPAN = (
    ("trace_id", "str"),
    ("span_id", "str"),
    ("parent_id", "str"),
    ("name", "str"),
    ("start", "time"),
    ("end", "time"),
    ("duration_ns", "int"),
    ("error", "bool"),
    ("engine", "str"),
    ("links", "strs"),
)
"""Columns of the span itself. Times are UTC with nanoseconds; a link is `<trace id>:<span id>`; no parent is null."""
_BEYOND = 1 << 63
OTHER = "other"
"""Column of attributes that the vocabulary does not know, or that are not of its kind: key -> text."""


def columns() -> dict[str, str]:
    """Name of every column, in order -> its kind."""
    resource = {key: kind for key, kind in kinds.RESOURCE.items() if key != "hicachectl.engine.id"}
    return {**dict(SPAN), **resource, **kinds.ATTRIBUTES, OTHER: "map"}


def write(runs: Iterable[Path | str], out: BinaryIO) -> int:
    """Write the spans of RUNS to OUT in the order in which they were recorded, ledgers last; the number of recorded spans.

    UnreachableError where pyarrow is absent; BadInputError where nothing can be read.
    """
    pa, pq = _packages()
    schema = pa.schema([(name, _types(pa)[kind]) for name, kind in columns().items()])
    count = 0
    with pq.ParquetWriter(
        _Sink(out),
        schema,
        compression="zstd",
        use_dictionary=[
            name for name, kind in columns().items() if kind == "str" and name not in ("span_id", "parent_id")
        ],
    ) as writer:
        rows = _Rows()
        for request in decoded(runs):
            count += 0 if request.ledger else len(request.spans)
            for span in request.spans:
                rows.add(span, request.resources.get(span.engine, {}))
                if rows.count == BATCH:
                    writer.write_batch(rows.taken(pa, schema))
        if rows.count:
            writer.write_batch(rows.taken(pa, schema))
    return count


class _Rows:
    """Spans by column, until they are a batch."""

    def __init__(self) -> None:
        self.names = list(columns())
        self.count = 0
        self.values: dict[str, list[Any]] = {name: [] for name in self.names}

    def add(self, span: Span, resource: dict[str, Value]) -> None:
        """One more row."""
        told = dict(_cells(span, resource))
        for name in self.names:
            self.values[name].append(told.get(name))
        self.count += 1

    def taken(self, pa: Any, schema: Any) -> Any:
        """The batch, and an empty one begun."""
        arrays = [pa.array(self.values[field.name], type=field.type) for field in schema]
        self.values, self.count = {name: [] for name in self.names}, 0
        return pa.record_batch(arrays, schema=schema)


def _cells(span: Span, resource: dict[str, Value]) -> Iterator[tuple[str, Any]]:
    yield from (
        ("trace_id", span.trace_id),
        ("span_id", span.span_id),
        ("parent_id", span.parent_id or None),
        ("name", span.name),
    )
    yield from (
        ("start", _held(span.start_ns)),
        ("end", _held(span.end_ns)),
        ("duration_ns", _held(span.duration_ns)),
        ("error", span.error),
    )
    yield "engine", span.engine or None
    yield "links", [f"{link.trace_id}:{link.span_id}" for link in span.links] or None
    yield from ((key, value) for key, value in resource.items() if _fits(value, kinds.RESOURCE.get(key)))
    other = []
    for key, value in span.attributes.items():
        if _fits(value, kinds.ATTRIBUTES.get(key)):
            yield key, value
        else:
            other.append((key, kinds.as_text(value)))
    yield OTHER, other or None


def _fits(value: Value, kind: str | None) -> bool:
    """Whether VALUE is of KIND, and each whole number in it one that a column holds."""
    return kinds.fits(value, kind) and all(not isinstance(each, int) or _held(each) is not None for each in (value if isinstance(value, list) else (value,)))


def _held(number: int) -> int | None:
    """NUMBER, or None where it has more than the 64 bits of a column, which no writer of OTLP gives it."""
    return number if -_BEYOND <= number < _BEYOND else None


class _Sink:
    """A stream that is only written to, as Arrow asks for it: standard output cannot tell where it stands."""

    def __init__(self, out: BinaryIO) -> None:
        self.out, self.place, self.closed = out, 0, False

    def write(self, data: Any) -> int:
        self.out.write(data)
        self.place += len(data)
        return len(data)

    def tell(self) -> int:
        return self.place

    def flush(self) -> None:
        self.out.flush()

    def close(self) -> None:
        """The stream's owner closes it."""


def _types(pa: Any) -> dict[str, Any]:
    text = pa.string()
    return {
        "str": text,
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("ns", tz="UTC"),
        "strs": pa.list_(text),
        "ints": pa.list_(pa.int64()),
        "map": pa.map_(text, text),
    }


def _packages() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UnreachableError(
            f"parquet needs a package that is not here ({error.name}): `pip install 'hicachectl[parquet]'`"
        ) from error
