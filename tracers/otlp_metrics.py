"""The metrics of this process on their way to a collector: added up from the records that the writer has in hand, and sent now and then."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracers import encode
from tracers import vocabulary as v
from tracers.encode import Shape
from tracers.ledger import Ledger
from tracers.meter import Meter, line
from tracers.otlp import Exporter
from tracers.record import Late, Record
from tracers.settings import Collector


class Metrics:
    """A meter, and the exporter that takes what it says; only the writer thread calls this."""

    def __init__(self, asked: Collector, interval_s: float) -> None:
        self.meter = Meter()
        self.exporter = Exporter(asked)
        self.interval_s = interval_s
        self._due = time.monotonic() + interval_s

    def start(self) -> None:
        """Start the thread that sends."""
        self.exporter.start()

    def renew(self) -> None:
        """Start at nothing, as in a forked child."""
        self.meter.renew()
        self.exporter.renew()
        self._due = time.monotonic() + self.interval_s

    def take(self, records: Sequence[Record], shapes: Mapping[str, Shape], details: Mapping[int, list[tuple[str, Any]]]) -> Iterator[Exception]:
        """Take RECORDS into account, with the DETAILS that their encoding has worked out; yields the faults of our own."""
        for point, start, end, _, _, rid, _, values, _ in records:
            shape = shapes.get(point)
            if shape is None or shape.span not in self.meter.wanted or type(values) is not tuple:
                continue
            try:
                self.meter.take(shape.span, told(shape.keys, values, details), start, end, rid)
            except Exception as fault:  # noqa: BLE001 - one odd record must not cost the others
                yield fault

    def due(self, *, final: bool) -> bool:
        """Whether it is time to send again."""
        return not self.exporter.dead and (final or time.monotonic() >= self._due)

    def tell(self, ledger: Ledger, resource: str, scope: str, start_ns: int, engine: str) -> None:
        """Hand everything so far to the exporter, which waits for nobody; RESOURCE and SCOPE are the texts of the writer's lines."""
        self._due = time.monotonic() + self.interval_s
        self.meter.take(v.LEDGER, dict(ledger.attributes()), 0, 0, None)
        if f'"{v.R_INSTANCE}"' not in resource:
            resource = f"{resource},{encode.attribute(v.R_INSTANCE, engine)}"
        self.exporter.offer(*line(self.meter, resource, scope, start_ns, time.time_ns()))

    def close(self, until: float) -> None:
        """Send what waits, as long as UNTIL (monotonic) has not come."""
        self.exporter.close(until)


def told(keys: Sequence[str], values: Sequence[Any], details: Mapping[int, list[tuple[str, Any]]]) -> dict[str, Any]:
    """The attributes of a record; a late value stands for those that the writer has worked out."""
    found: dict[str, Any] = {}
    for key, value in zip(keys, values, strict=False):
        if isinstance(value, Late):
            found.update(details.get(id(value), ()))
        elif value is not None:
            found[key] = value
    return found
