"""What `trace` asks of COMMAND's environment."""

import json
from pathlib import Path

import pytest
from recordings import Recording

from hicachectl.exits import UsageError
from hicachectl.recorder import session
from hicachectl.recorder.summary import Summary
from tracers import vocabulary as v


class Broken:
    """A screen that fails whatever it is asked."""

    def show(self, summary: Summary) -> None:
        """Fail."""
        raise RuntimeError(f"no screen for {summary.requests}")

    def release(self) -> None:
        """Fail."""
        raise RuntimeError("no screen")


def test_a_fault_of_ours_does_not_reach_the_command(tmp_path: Path) -> None:
    """A summary that cannot be shown is noted in the ledger; COMMAND runs to its own end."""
    made = Recording()
    made.engine().span(v.ENGINE_START, 1)
    line = tmp_path / "line"
    line.write_text(made.engines[0].line() + "\n")
    script = f"cp {line} $HICACHECTL_TRACE/spans-h-1-1.jsonl; sleep 2.5; exit 3"
    outcome = session.record(["sh", "-c", script], run=tmp_path / "run", otlp=None, screen=Broken())
    assert outcome.code == 3
    (ledger,) = (tmp_path / "run").glob("ledger-*.json")
    told = json.loads(ledger.read_text())
    assert told["closed"] is True
    assert told["faults"] == ["trace: RuntimeError: no screen for 0", "trace: RuntimeError: no screen"]


def test_a_folder_that_is_taken_away_does_not_end_the_command(tmp_path: Path) -> None:
    """COMMAND may even remove its own recording."""
    script = "rm -r $HICACHECTL_TRACE; sleep 1.5; exit 4"
    outcome = session.record(["sh", "-c", script], run=tmp_path / "run", otlp=None, screen=Broken())
    assert (outcome.code, outcome.summary.spans) == (4, 0)


@pytest.mark.parametrize(
    ("url", "endpoint", "protocol"),
    [
        ("grpc://host:4317", "http://host:4317", "grpc"),
        ("grpcs://host:4317", "https://host:4317", "grpc"),
        ("http://host:4318", "http://host:4318", "http/protobuf"),
    ],
)
def test_a_collector_is_named_by_opentelemetrys_own_variables(url: str, endpoint: str, protocol: str) -> None:
    """The scheme chooses the protocol; the tracers read the standard variables."""
    told = session.environment({"A": "1"}, Path("/run"), url)
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == endpoint
    assert told["OTEL_EXPORTER_OTLP_PROTOCOL"] == protocol
    assert (told["A"], told["HICACHECTL_TRACE"]) == ("1", "/run")


def test_a_collector_that_is_named_on_the_command_line_goes_before_every_variable() -> None:
    """Variables of one signal alone would else go before it."""
    outer = {f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT": "http://other" for signal in ("TRACES", "METRICS")}
    told = session.environment({**outer, "OTEL_METRICS_EXPORTER": "none"}, Path("/run"), "http://host:4318")
    assert not outer.keys() & told.keys()
    assert told["OTEL_METRICS_EXPORTER"] == "none"
    assert session.environment(outer, Path("/run"), None).items() >= outer.items()


@pytest.mark.parametrize("url", ["host:4317", "ftp://host", "grpc://", "http:///"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """A collector that cannot be one is a matter of usage, said before anything starts."""
    with pytest.raises(UsageError, match="--otlp"):
        session.collector(url)
