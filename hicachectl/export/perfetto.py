"""Chrome's trace events, as the Perfetto UI and chrome://tracing open them: a track per thread, requests as flows.

The format: complete events (`X`) with real process and thread ids, names as metadata (`M`), flows (`s`, `t`, `f`) from span to span of a request.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hicachectl.store import Recording, Span
from hicachectl.store.around import rid_of
from tracers import vocabulary as v

_NEXT_PROCESS = 10_000_000
"""Added to a process id that another engine of the recording has too (another host, or a later process): the digits stay readable."""
_NEXT_LANE = 10_000_000
"""Added to a thread id for spans that overlap others of the thread without lying inside them; above every id of a Linux kernel."""
_MOST_LANES = 200
"""Tracks of one thread, so that ids stay within 32 bits; what overlaps still more is drawn in the last one."""


@dataclass(slots=True)
class _Track:
    """One thread of the output: who it is, and when its open spans end."""

    pid: int
    tid: int
    name: str
    ends: list[int] = field(default_factory=list)

    def takes(self, span: Span) -> bool:
        """Whether SPAN can lie here: after or inside what is open. Spans come in time order, the longer one first."""
        while self.ends and self.ends[-1] <= span.start_ns:
            self.ends.pop()
        if self.ends and span.end_ns > self.ends[-1]:
            return False
        self.ends.append(max(span.end_ns, span.start_ns))
        return True


def events(recording: Recording) -> Iterator[dict[str, Any]]:
    """Trace events of RECORDING: names first, then spans in time order, then the flows of requests."""
    spans = sorted(recording.spans, key=lambda span: (span.start_ns, -span.end_ns))
    origin = spans[0].start_ns if spans else 0
    processes = _processes(recording)
    tracks: dict[tuple[str, int], list[_Track]] = {}
    placed = [(span, _track(span, processes, tracks)) for span in spans]
    yield from _names(recording, processes, tracks)
    for span, track in placed:
        yield _complete(span, track, origin)
    yield from _flows(placed, origin)


def _processes(recording: Recording) -> dict[str, int]:
    """Engine id -> process id, made unique."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for engine in dict.fromkeys([*recording.resources, *(span.engine for span in recording.spans)]):
        told = recording.resources.get(engine, {}).get(v.R_PID)
        pid = told if isinstance(told, int) and 0 < told < _NEXT_PROCESS else 1
        while pid in taken:
            pid += _NEXT_PROCESS
        taken.add(pid)
        found[engine] = pid
    return found


def _track(span: Span, processes: dict[str, int], tracks: dict[tuple[str, int], list[_Track]]) -> _Track:
    tid = span.thread_id
    lanes = tracks.setdefault((span.engine, tid), [])
    for lane in lanes:
        if lane.takes(span):
            return lane
    if len(lanes) == _MOST_LANES:
        return lanes[-1]
    number = len(lanes)
    # A thread id that no kernel gave (a pointer) would not fit: it becomes a small number that stays the same.
    real = tid if 0 < tid < _NEXT_LANE else zlib.crc32(str(tid).encode()) % _NEXT_LANE
    name = span.thread_name + (f" (overlap {number})" if number else "")
    lane = _Track(processes[span.engine], real + number * _NEXT_LANE, name)
    lane.takes(span)
    lanes.append(lane)
    return lane


def _names(
    recording: Recording, processes: dict[str, int], tracks: dict[tuple[str, int], list[_Track]]
) -> Iterator[dict[str, Any]]:
    for engine, pid in processes.items():
        told = recording.resources.get(engine, {})
        rank = f" TP{told[v.R_TP_RANK]}" if v.R_TP_RANK in told else ""
        name = f"{told.get(v.R_SERVICE, 'process')}{rank} {engine}".strip()
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    for lanes in tracks.values():
        for lane in lanes:
            yield {"ph": "M", "name": "thread_name", "pid": lane.pid, "tid": lane.tid, "args": {"name": lane.name}}


def _complete(span: Span, track: _Track, origin: int) -> dict[str, Any]:
    args: dict[str, Any] = {key: value for key, value in span.attributes.items() if not key.startswith("thread.")}
    args |= {"span_id": span.span_id, "trace_id": span.trace_id} | (
        {"parent_id": span.parent_id} if span.parent_id else {}
    )
    return {
        "ph": "X",
        "name": span.name,
        "cat": "error" if span.error else span.name.split(".")[1] if "." in span.name else "span",
        "ts": (span.start_ns - origin) / 1000,
        "dur": span.duration_ns / 1000,
        "pid": track.pid,
        "tid": track.tid,
        "args": args,
    }


def _flows(placed: Sequence[tuple[Span, _Track]], origin: int) -> Iterator[dict[str, Any]]:
    """For each request arrows through its outermost spans, wherever they ran; a request of a single span has none."""
    requests: dict[str, list[tuple[Span, _Track]]] = {}
    spans = {span.span_id: span for span, _ in placed}
    for span, track in placed:
        rid = rid_of(span)
        parent = spans.get(span.parent_id)
        if rid and (parent is None or rid_of(parent) != rid):
            requests.setdefault(rid, []).append((span, track))
    for number, (rid, steps) in enumerate(requests.items(), start=1):
        for at, (span, track) in enumerate(steps if len(steps) > 1 else ()):
            phase = "s" if at == 0 else "f" if at == len(steps) - 1 else "t"
            yield {
                "ph": phase,
                "name": "request",
                "cat": "request",
                "id": number,
                "ts": (span.start_ns - origin) / 1000,
                "pid": track.pid,
                "tid": track.tid,
                "args": {v.RID: rid},
                **({"bp": "e"} if phase != "s" else {}),
            }
