"""Samples the counters of the store's master beside the engine, about once a second."""

import threading
import time
from collections.abc import Iterable, Mapping

from hicachectl.exits import OperatorError
from hicachectl.mooncake import master
from hicachectl.recorder.journal import Journal
from hicachectl.store.span import Span
from tracers import vocabulary as v

EVERY_S = 1.0
LONGEST_SILENCE_S = 10.0
"""A sample that equals the one before is written only after this long: nothing happened in between."""
_TIMEOUT_S = 2.0
COUNTED: Mapping[str, tuple[str, ...]] = {
    v.SAMPLE_KEYS: ("keys",),
    v.SAMPLE_EVICTED: ("evicted_keys",),
    v.SAMPLE_FAILURES: ("put_failures", "get_failures", "exist_failures"),
    v.SAMPLE_USED: ("used_bytes",),
    v.SAMPLE_CAPACITY: ("capacity_bytes",),
    v.SAMPLE_SEGMENTS: ("segments",),
}
"""Attribute of a sample -> the master's counters whose sum it is (`hicachectl.mooncake.master.SAMPLED`)."""


def master_of(env: Mapping[str, str]) -> tuple[str, int] | None:
    """Address and admin port of the master that the environment names, as SGLang reads them; None where it names none."""
    address = env.get("MOONCAKE_MASTER")
    return (address, _port(env.get("MOONCAKE_MASTER_METRICS_PORT"))) if address else None


def masters_in(spans: Iterable[Span], env: Mapping[str, str]) -> set[tuple[str, int]]:
    """Addresses and admin ports of the masters that SPANS say engines were given."""
    found = set()
    for span in spans:
        if span.name == v.BACKEND_CONFIG:
            address, port = span.attributes.get(v.MASTER), span.attributes.get(v.MASTER_HTTP_PORT)
            if isinstance(address, str) and address:
                told = port if isinstance(port, int) else _port(env.get("MOONCAKE_MASTER_METRICS_PORT"))
                found.add((address, told))
    return found


class Sampler:
    """A thread that samples every master it was told of, until it is stopped."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._bases: dict[str, str] = {}
        self._last: dict[str, tuple[float, dict[str, int]]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, masters: Iterable[tuple[str, int]]) -> None:
        """Sample these masters from now on."""
        for address, port in masters:
            try:
                self._bases[master.base_url(address, port)] = address
            except OperatorError as error:
                self._journal.fault(str(error))
        if self._bases and self._thread is None and not self._stop.is_set():
            self._thread = threading.Thread(target=self._run, name="hicachectl-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; a question that is on its way is waited for."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * _TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            for base, address in list(self._bases.items()):
                self._sample(base, address)
            self._stop.wait(max(0.1, EVERY_S - (time.monotonic() - begun)))

    def _sample(self, base: str, address: str) -> None:
        start = time.time_ns()
        try:
            told = master.sample(base, timeout=_TIMEOUT_S)
        except OperatorError as error:
            self._journal.fault(str(error))
            return
        values = {key: int(sum(told.get(name, 0) for name in names)) for key, names in COUNTED.items()}
        at, before = self._last.get(base, (0.0, {}))
        if values == before and time.monotonic() - at < LONGEST_SILENCE_S:
            return
        self._last[base] = (time.monotonic(), values)
        self._journal.span(v.STORE_SAMPLE, start, time.time_ns(), {v.MASTER: address, **values})


def _port(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else master.DEFAULT_ADMIN_PORT
