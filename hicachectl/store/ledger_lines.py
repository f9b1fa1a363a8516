"""The ledgers of a recording as lines of OTLP/JSON: where the spans go, there are no ledger files beside them."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hicachectl import __version__
from hicachectl.store import files
from hicachectl.store import ledger as ledgers
from hicachectl.store.ledger import Ledger
from hicachectl.store.span import Value
from tracers import vocabulary as v

Pairs = list[dict[str, Any]]


def lines(run: Path, resources: Mapping[str, Mapping[str, Value]]) -> Iterator[bytes]:
    """A line for each ledger of RUN that can be read; RESOURCES is what the spans of each engine say of it."""
    for path in files.ledger_files(run):
        found = ledgers.from_file(path)
        if found is not None:
            yield line(found, resources.get(found.engine, {}))


def line(told: Ledger, resource: Mapping[str, Value]) -> bytes:
    """One request with one span that repeats TOLD; the same ledger gives the same span, so that sending it twice does no harm."""
    moment = str(told.seen_ms * 1_000_000)
    span = {
        "traceId": hashlib.sha256(told.engine.encode()).hexdigest()[:32],
        "spanId": ledgers.copy_id(told),
        "name": v.LEDGER,
        "kind": 1,
        "startTimeUnixNano": moment,
        "endTimeUnixNano": moment,
        "attributes": _pairs(ledgers.attributes(told)),
    }
    own: dict[str, Value | None] = {
        v.R_SERVICE: "sglang",
        v.R_HOST: told.host,
        v.R_PID: told.pid,
        v.R_ENGINE: told.engine,
        v.R_VERSION: told.recording_version,
        v.R_SGLANG: told.versions.get("sglang"),
        v.R_MOONCAKE: told.versions.get("mooncake"),
    }
    scope = {"scope": {"name": v.R_SCOPE, "version": __version__}, "spans": [span]}
    group = {"resource": {"attributes": _pairs({**own, **resource})}, "scopeSpans": [scope]}
    return msgspec.json.encode({"resourceSpans": [group]})


def _pairs(values: Mapping[str, Value | None]) -> Pairs:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": value}
