"""Serves metrics to Prometheus from this process, beside the engine: no port is opened in an engine."""

import importlib
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.recorder.metrics import OF_ENGINE, Series
from tracers import vocabulary as v
from tracers.meter import Histogram

LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"(?:(?P<address>\[[0-9a-fA-F:.]+\]|[\w.-]*):)?(?P<port>[0-9]{1,5})")
_UNITS = {"By": "_bytes", "s": "_seconds"}


def prometheus_name(metric: str) -> str:
    """The name that Prometheus knows a metric by, with the unit spelled out and `_total` behind a counter.

    Source: OpenTelemetry's rules of compatibility with Prometheus, "Metric metadata": what stands in braces is no unit.
    """
    kind, unit, *_ = v.METRICS[metric]
    return label(metric) + _UNITS.get(unit, "") + ("_total" if kind == v.COUNTER else "")


def label(key: str) -> str:
    """An attribute's key, or a metric's name, with what Prometheus does not allow replaced."""
    return key.replace(".", "_")


def place(told: str) -> tuple[str, int]:
    """(address, port) of `PORT` or `ADDRESS:PORT`; UsageError where it is none."""
    found = _PLACE.fullmatch(told)
    if found is None or int(found["port"]) > 65535:
        raise UsageError(f"--metrics-port {told}: expected PORT or ADDRESS:PORT, such as 9400 or 0.0.0.0:9400")
    return (found["address"] or LOOPBACK).strip("[]"), int(found["port"])


class Endpoint:
    """A bound port; what is asked of it is answered from `serve` on."""

    def __init__(self, told: str, client: Any) -> None:
        address, port = place(told)
        self._client = client
        self._serving = False
        try:
            self._server = _server(address, port)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UnreachableError(f"cannot serve metrics at {told}: {why}; name another port in --metrics-port") from error
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def serve(self, series: Callable[[], Sequence[Series]]) -> None:
        """Answer from now on with SERIES, in threads that inherit this one's signals."""
        registry = self._client.CollectorRegistry()
        registry.register(_Collector(self._client, series))
        self._server.set_app(self._client.make_wsgi_app(registry))
        threading.Thread(target=self._server.serve_forever, args=(0.2,), name="hicachectl-scrape", daemon=True).start()
        self._serving = True

    def close(self) -> None:
        """Let the port go."""
        if self._serving:
            self._server.shutdown()
        self._server.server_close()


def opened(told: str) -> Endpoint:
    """The port that TOLD names, bound; UsageError or UnreachableError, before anything is started."""
    try:
        client = importlib.import_module("prometheus_client")
        importlib.import_module("prometheus_client.core")
    except ImportError as error:
        raise UnreachableError("--metrics-port needs the package prometheus_client: pip install 'hicachectl[metrics]'") from error
    return Endpoint(told, client)


class _Quiet(WSGIRequestHandler):
    """A connection that says nothing on stderr, where COMMAND talks, and that does not wait for ever."""

    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the original's name
        """Nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without looking up the host's name, which may take as long as a name server likes."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server(address: str, port: int) -> WSGIServer:
    return (_Server6 if ":" in address else _Server)((address, port), _Quiet)


class _Collector:
    """What prometheus_client asks for the series."""

    def __init__(self, client: Any, series: Callable[[], Sequence[Series]]) -> None:
        self._core = client.core
        self._series = series

    def describe(self) -> list[Any]:
        """Nothing: the registry need not collect once to know the names."""
        return []

    def collect(self) -> Iterator[Any]:
        """A family for each metric, series or none, so that a dashboard's queries find what they name."""
        by_metric: dict[str, list[Series]] = {metric: [] for metric in v.METRICS}
        for one in self._series():
            by_metric[one.metric].append(one)
        for metric, found in by_metric.items():
            yield self._family(metric, found)

    def _family(self, metric: str, found: Sequence[Series]) -> Any:
        kind, _, meaning, ranks, attributes = v.METRICS[metric]
        keys = [*(() if metric in (v.M_FINDINGS, v.M_JUDGED) else OF_ENGINE), *attributes]
        made = {
            v.COUNTER: self._core.CounterMetricFamily,
            v.GAUGE: self._core.GaugeMetricFamily,
            v.HISTOGRAM: self._core.HistogramMetricFamily,
        }[kind](prometheus_name(metric), f"{meaning}; a sum over ranks: {ranks}", labels=[label(key) for key in keys])
        for one in found:
            values = [one.attributes.get(key, "") for key in keys]
            if isinstance(one.told, Histogram):
                made.add_metric(values, buckets=_buckets(one.told), sum_value=one.told.sum)
            else:
                made.add_metric(values, one.told)
        return made


def _buckets(told: Histogram) -> list[tuple[str, int]]:
    """(upper bound, how many lay at or below it), as Prometheus counts."""
    return list(zip([*map(str, v.BUCKETS), "+Inf"], accumulate(told.counts), strict=True))
