"""Makes recordings by hand, in the exact format that tracers write; shared by the tests of every room.

A recording is built from engines, an engine from spans and a ledger:

    recording = Recording()
    engine = recording.engine(pid=101, tp_rank=0)
    engine.span(PREFETCH_GATE, 10, 11, rid="a", attributes={REASON: "R04"})
    put = engine.span(STORE_PUT, 20, 22, thread=("backup", 7), code=[...])
    engine.span(WRITE_STORE, 19, 23, links=[put])
    run = recording.write(tmp_path / "run")

Times are milliseconds after `recording.epoch_ms`; ids count up, so that whole outputs can be compared.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracers import vocabulary as v

EPOCH_MS = 1_764_000_000_000
"""2025-11-24T16:00:00Z: when hand-made recordings begin."""


def trace_id_of(rid: str) -> str:
    """A trace id derived from a request id: the same on every rank and in every engine."""
    return hashlib.sha256(rid.encode()).hexdigest()[:32]


def page_keys(*names: str) -> str:
    """Page keys as PAGE_KEYS carries them, one for each name."""
    return "".join(hashlib.sha256(name.encode()).hexdigest() for name in names)


def value_of(value: Any) -> dict[str, Any]:
    """A value as OTLP/JSON writes it: integers as strings."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [value_of(one) for one in value]}}
    return {"stringValue": str(value)}


def key_values(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A mapping as OTLP/JSON's list of key and value; None is left out."""
    return [{"key": key, "value": value_of(value)} for key, value in attributes.items() if value is not None]


@dataclass
class MadeSpan:
    """One span as it will be written."""

    trace_id: str
    span_id: str
    document: dict[str, Any]


@dataclass
class Engine:
    """One process of the recording; `span` adds what it did, `ledger` changes what it says of itself."""

    recording: "Recording"
    host: str
    pid: int
    start_ms: int
    resource: dict[str, Any]
    told: dict[str, Any]
    spans: list[MadeSpan] = field(default_factory=list)
    has_ledger: bool = True

    @property
    def id(self) -> str:
        """The engine id."""
        return f"{self.host}:{self.pid}:{self.start_ms}"

    def span(
        self,
        name: str,
        start: float,
        end: float | None = None,
        *,
        rid: str | None = None,
        parent: MadeSpan | None = None,
        links: Sequence[MadeSpan] = (),
        thread: tuple[str, int] = ("MainThread", 0),
        error: bool = False,
        trace_id: str | None = None,
        span_id: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> MadeSpan:
        """Add a span from START to END (milliseconds after the epoch); its trace is that of RID, of PARENT, or its own.

        ATTRIBUTES are by key of the vocabulary (or any other key); `thread` is name and number, 0 for the process's own.
        """
        if name not in v.SPANS:
            raise ValueError(f"{name} is not in the vocabulary")
        number = self.recording.next_number()
        span_id = span_id or f"{number:016x}"
        trace_id = trace_id or (trace_id_of(rid) if rid else parent.trace_id if parent else f"{number:032x}")
        carried: dict[str, Any] = {"thread.id": thread[1] or self.pid, "thread.name": thread[0]}
        carried |= {v.RID: rid} if rid is not None else {}
        carried |= dict(attributes or {})
        document: dict[str, Any] = {
            "traceId": trace_id,
            "spanId": span_id,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(self._ns(start)),
            "endTimeUnixNano": str(self._ns(start if end is None else end)),
            "attributes": key_values(carried),
        }
        if parent is not None:
            document["parentSpanId"] = parent.span_id
        if links:
            document["links"] = [{"traceId": one.trace_id, "spanId": one.span_id} for one in links]
        if error:
            document["status"] = {"code": 2}
        made = MadeSpan(trace_id, span_id, document)
        self.spans.append(made)
        return made

    def ledger(self, **told: Any) -> "Engine":
        """Change fields of the ledger: closed=False, dropped=3, points=[...]."""
        self.told |= told
        return self

    def point(self, id: str, state: str = "installed", **told: Any) -> "Engine":  # noqa: A002 - the ledger's own name
        """Add a row to the ledger's points."""
        row = {"id": id, "target": f"sglang.{id}", "state": state, "detail": "", "calls": 0, "spans": 0, "faults": 0}
        self.told["points"].append(row | told)
        return self

    def without_ledger(self) -> "Engine":
        """Leave no ledger file, as a process that was killed at once."""
        self.has_ledger = False
        return self

    def line(self, spans: Iterable[MadeSpan] | None = None) -> str:
        """One export request with SPANS (default: all), without the newline."""
        documents = [one.document for one in (self.spans if spans is None else spans)]
        scope = {"name": v.R_SCOPE, "version": "0.0.0"}
        group = {
            "resource": {"attributes": key_values(self.resource)},
            "scopeSpans": [{"scope": scope, "spans": documents}],
        }
        return json.dumps({"resourceSpans": [group]}, separators=(",", ":"))

    def ledger_document(self) -> dict[str, Any]:
        """The ledger as its file holds it."""
        return {"written": len(self.spans)} | self.told

    def _ns(self, ms: float) -> int:
        return self.recording.epoch_ms * 1_000_000 + round(ms * 1_000_000)


class Recording:
    """A recording in the making."""

    def __init__(self, epoch_ms: int = EPOCH_MS) -> None:
        self.epoch_ms = epoch_ms
        self.engines: list[Engine] = []
        self._number = 0

    def next_number(self) -> int:
        """The next id, counted over all engines."""
        self._number += 1
        return self._number

    def engine(
        self,
        pid: int = 101,
        host: str = "host-a",
        *,
        tp_rank: int = 0,
        pp_rank: int = 0,
        scheduler: bool = True,
        sglang: str | None = "0.5.14",
        mooncake: str | None = "0.3.11.post1",
        stand_in: str | None = None,
        resource: Mapping[str, Any] | None = None,
    ) -> Engine:
        """Add a process with a closed ledger that lost nothing."""
        start_ms = self.epoch_ms - 1000
        name = f"{host}:{pid}:{start_ms}"
        told = {
            v.R_SERVICE: "sglang",
            v.R_HOST: host,
            v.R_PID: pid,
            v.R_ENGINE: name,
            v.R_VERSION: v.RECORDING_VERSION,
            v.R_SGLANG: sglang,
            v.R_MOONCAKE: mooncake,
            v.R_TP_RANK: tp_rank,
            v.R_PP_RANK: pp_rank,
            v.R_STAND_IN: stand_in,
        }
        book = {
            "recording_version": v.RECORDING_VERSION,
            "engine": name,
            "host": host,
            "pid": pid,
            "ppid": 1,
            "start_ms": start_ms,
            "seen_ms": start_ms,
            "ended_ms": None,
            "versions": {"sglang": sglang, "mooncake": mooncake, "python": "3.11.7", "hicachectl": "0.0.0"},
            "scheduler": scheduler,
            "points": [],
            "dropped": 0,
            "detail_dropped": 0,
            "closed": True,
            "faults": [],
        }
        made = Engine(self, host, pid, start_ms, told | dict(resource or {}), book)
        self.engines.append(made)
        return made

    def write(self, folder: Path, *, batch: int = 64, command: Sequence[str] | None = None) -> Path:
        """Write the recording as a folder; a line carries at most BATCH spans. Returns FOLDER."""
        folder.mkdir(parents=True, exist_ok=True)
        about: dict[str, Any] = {"recording_version": v.RECORDING_VERSION, "created_ms": self.epoch_ms}
        about |= {"command": list(command)} if command else {}
        (folder / "run.json").write_text(json.dumps(about))
        for engine in self.engines:
            stem = f"{engine.host}-{engine.pid}-{engine.start_ms}"
            batches = [engine.spans[i : i + batch] for i in range(0, len(engine.spans), batch)]
            (folder / f"spans-{stem}.jsonl").write_text("".join(engine.line(one) + "\n" for one in batches))
            if engine.has_ledger:
                (folder / f"ledger-{stem}.json").write_text(json.dumps(engine.ledger_document()))
        return folder
