"""One request out of a column store, as a recording in which its verdict is the one that all of the spans would give."""

from dataclasses import dataclass

from hicachectl.store.columns.around import of_requests, processes, recording, traces_of
from hicachectl.store.columns.database import Database
from hicachectl.store.columns.marked import marked, spans
from hicachectl.store.recording import Recording


@dataclass(frozen=True, slots=True)
class One:
    """What was read for a request."""

    recording: Recording
    left_out: int
    """Requests that begin as this one does and were not read: a finding that names several may name fewer."""


def one(database: Database, request: str) -> One | None:
    """What is needed of DATABASE to judge the request whose id is, or begins with, REQUEST; None where there is none."""
    traces = traces_of(database, request)
    if not traces:
        return None
    known = processes(database)
    found = of_requests(database, traces, known)
    engines = sorted({span.engine for span in found.spans if span.trace_id in set(traces)})
    found.spans += spans(database, known, marked(database, known, engines))
    return One(recording(database, known, found), found.left_out)
