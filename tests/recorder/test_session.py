"""What `trace` asks of COMMAND's environment."""

from pathlib import Path

import pytest

from hicachectl.exits import UsageError
from hicachectl.recorder import session


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


@pytest.mark.parametrize("url", ["host:4317", "ftp://host", "grpc://", "http:///"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """A collector that cannot be one is a matter of usage, said before anything starts."""
    with pytest.raises(UsageError, match="--otlp"):
        session.collector(url)
