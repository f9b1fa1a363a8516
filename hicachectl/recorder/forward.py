"""Sends what `trace` itself writes to the collector that the engines send to: a verdict may rest on the samples of the master."""

import queue
import threading
from collections.abc import Mapping

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.export import otlp

MOST_WAITING = 2000
"""Lines; one is written a second at most."""
LAST_S = 1.0
"""How long the end waits for the collector."""


def target(env: Mapping[str, str]) -> str | None:
    """URL of the collector that OpenTelemetry's variables in ENV name, with a scheme that tells the protocol; None where there is none."""

    def told(name: str) -> str:
        return env.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or env.get(f"OTEL_EXPORTER_OTLP_{name}") or ""

    endpoint, own = told("ENDPOINT"), env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    off = env.get("OTEL_SDK_DISABLED", "").lower() == "true" or env.get("OTEL_TRACES_EXPORTER") == "none"
    if not endpoint or off or env.get("OTEL_TRACES_SAMPLER", "").endswith("always_off"):
        return None
    scheme, found, rest = endpoint.partition("://")
    if told("PROTOCOL") == "grpc":
        secure = scheme == "https" if found else told("INSECURE") != "true"
        return f"{'grpcs' if secure else 'grpc'}://{rest if found else endpoint}"
    return endpoint if own else endpoint.rstrip("/") + otlp.PATH


class Forward:
    """A thread that sends lines one after the other; what cannot be sent is counted, and nothing is raised."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.dropped = 0
        self.fault = ""
        self._lines: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Send LINE later; never waits."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Send what waits; a second at most."""
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(LAST_S)

    def _run(self) -> None:
        try:
            with otlp.collector(self.url) as send:
                while (line := self._lines.get()) is not None:
                    try:
                        self.dropped += send(line.strip())
                    except UnreachableError as error:
                        self.dropped += 1
                        self.fault = self.fault or str(error)
        except (UnreachableError, UsageError) as error:
            self.fault = str(error)
            while self._lines.get() is not None:
                self.dropped += 1
