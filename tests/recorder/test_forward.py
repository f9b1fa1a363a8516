"""What `trace` itself writes, on its way to the collector of the engines."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from collecting import by_id, listener, receiver, unused

from hicachectl.recorder import forward
from hicachectl.recorder.forward import Forward
from hicachectl.recorder.journal import Journal
from tracers import vocabulary as v


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, None),
        ({"ENDPOINT": "http://h:4318"}, "http://h:4318/v1/traces"),
        ({"TRACES_ENDPOINT": "http://h:4318/x"}, "http://h:4318/x"),
        ({"ENDPOINT": "http://h:4317", "PROTOCOL": "grpc"}, "grpc://h:4317"),
        ({"ENDPOINT": "https://h:4317", "TRACES_PROTOCOL": "grpc"}, "grpcs://h:4317"),
        ({"ENDPOINT": "h:4317", "PROTOCOL": "grpc", "INSECURE": "true"}, "grpc://h:4317"),
    ],
)
def test_the_collector_is_that_of_the_engines(told: Mapping[str, str], expected: str | None) -> None:
    """OpenTelemetry's variables, as the tracers read them; switched off there is switched off here."""
    env = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in told.items()}
    assert forward.target(env) == expected
    for off in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_SAMPLER": "always_off"}):
        assert forward.target({**env, **off}) is None


def test_samples_and_the_ledger_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the journal's file is sent, the ledger last and once, with the headers that the environment names."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
    with receiver() as there:
        sending = Forward(there.url)
        journal = Journal(tmp_path, sending.put)
        journal.span(v.STORE_SAMPLE, 1, 2, {v.SAMPLE_KEYS: 5})
        journal.save(closed=True)
        journal.save(closed=True)
        sending.close()
        arrived = by_id(there.documents())
    lines = next(tmp_path.glob("spans-*")).read_bytes().splitlines()
    assert arrived == by_id([json.loads(line) for line in lines])
    assert [span["name"] for span in arrived.values()] == [v.STORE_SAMPLE, v.LEDGER]
    assert {told["x-key"] for told in there.headers} == {"a b"}
    assert sending.dropped == 0


def test_a_collector_that_is_silent_or_absent_costs_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end waits a second at most, and the first fault is kept for the ledger."""
    monkeypatch.setenv("NO_PROXY", "*")
    absent = Forward(f"http://{unused()}")
    absent.put(b"{}")
    absent.close()
    assert absent.dropped == 1
    assert "cannot reach a collector" in absent.fault
    wrong = Forward("nonsense://h")
    wrong.put(b"{}")
    wrong.close()
    assert wrong.dropped == 1
    assert "nonsense://h" in wrong.fault
    with listener(lambda connection: None) as place:
        silent = Forward(f"http://{place}")
        silent.put(b"{}")
        began = time.monotonic()
        silent.close()
        assert time.monotonic() - began < 3
