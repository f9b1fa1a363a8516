"""The metrics of a recording that grows: those that engines send, worked out from the same rows, and those that need the diagnosis."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hicachectl.recorder.findings import Findings
from hicachectl.store import Span, files, ledger
from hicachectl.store.span import Value
from tracers import vocabulary as v
from tracers.meter import OVERFLOW, Histogram, Meter, named

MOST_ENGINES = 200
"""Engines whose series are kept: a command that starts engines for ever has the oldest forgotten."""
OF_ENGINE = (v.R_ENGINE, v.R_HOST, v.R_TP_RANK, v.R_PP_RANK)
"""What tells the series of one engine process from those of another."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its metric, attributes with those of its engine, and what it has come to."""

    metric: str
    attributes: Mapping[str, str]
    told: float | Histogram


class Metrics:
    """Fed by the thread that follows the recording, read by those that serve it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._meters: dict[str, Meter] = {}
        self._engines: dict[str, dict[str, str]] = {}
        """Engine -> the attributes of all its series; processes that run no scheduler have no rank and no series."""
        self._judged: list[Series] = []

    def add(self, spans: Iterable[Span], resources: Mapping[str, Mapping[str, Value]]) -> None:
        """Take SPANS into account; RESOURCES are those of their engines."""
        with self._lock:
            for span in spans:
                meter = self._meter(span.engine)
                if span.name in meter.wanted:
                    rid = span.attributes.get(v.RID)
                    meter.take(span.name, span.attributes, span.start_ns, span.end_ns, rid if isinstance(rid, str) else None)
            for engine in self._meters:
                told = resources.get(engine, {})
                if v.R_TP_RANK in told:
                    self._engines[engine] = {key: str(told.get(key, "")) for key in OF_ENGINE}

    def judge(self, findings: Findings, spans: int) -> None:
        """Take over what the diagnosis has found so far, in a recording of so many SPANS."""
        lost = [
            Series(v.M_LOST, {**self._engines.get(engine, {v.R_ENGINE: engine}), v.D_CODE: code}, tokens)
            for (engine, code), tokens in findings.lost.copy().items()
        ]
        judged = findings.judges(spans)
        levels = [Series(v.M_FINDINGS, {v.D_LEVEL: level}, count) for level, count in (findings.levels or {}).items()] if judged else []
        with self._lock:
            self._judged = [*lost, *levels, Series(v.M_JUDGED, {}, int(judged))]

    def series(self) -> list[Series]:
        """Every series as it stands."""
        told = {one.engine: one for path in self._ledgers() if (one := ledger.from_file(path)) is not None}
        with self._lock:
            found = list(self._judged)
            for engine, attributes in self._engines.items():
                meter = self._meters[engine]
                if engine in told:
                    _count_spans(meter, told[engine])
                found += [Series(metric, {**attributes, **_named(metric, values)}, _copied(now)) for (metric, values), now in meter.series.items()]
        return found

    def _meter(self, engine: str) -> Meter:
        found = self._meters.get(engine)
        if found is None:
            if len(self._meters) >= MOST_ENGINES:
                oldest = next(iter(self._meters))
                del self._meters[oldest]
                self._engines.pop(oldest, None)
            found = self._meters[engine] = Meter()
        return found

    def _ledgers(self) -> Iterator[Path]:
        try:
            yield from files.ledger_files(self._folder)
        except OSError:  # the folder was taken away
            return


def _count_spans(meter: Meter, told: ledger.Ledger) -> None:
    """What became of the spans, from the ledger's file: the span that repeats it comes seldom."""
    meter.add(v.M_SPANS, ("written",), told.written, absolute=True)
    meter.add(v.M_SPANS, ("dropped",), told.dropped, absolute=True)
    if told.export is not None:
        meter.add(v.M_SPANS, ("unsent",), told.export.dropped, absolute=True)


def _named(metric: str, values: tuple[str, ...]) -> dict[str, str]:
    """Attributes of a series; all of a metric have the same keys, also that of what is beyond the bound."""
    found = named(metric, values)
    return dict.fromkeys(v.METRICS[metric][4], OVERFLOW) if OVERFLOW in found else found


def _copied(told: float | Histogram) -> float | Histogram:
    return Histogram(list(told.counts), told.sum) if isinstance(told, Histogram) else told
