"""Samples the counters of the store's master beside the engine, about once a second."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import httpx

from hicachectl.exits import OperatorError
from hicachectl.mooncake import master
from hicachectl.recorder.journal import Journal
from hicachectl.store.span import Span
from hicachectl.whole import whole
from tracers import vocabulary as v

EVERY_S = 1.0
LONGEST_SILENCE_S = 10.0
"""Of samples that are all equal one is written after this long: nothing happened in between."""
_OUTAGE_S = 5.0
"""A master that answered before is noted as silent only after this long: at the end it stops a moment before we do."""
_TIMEOUT_S = 2.0
MOST_LOOKED_UP = 64
"""Objects that the masters are asked for in one recording: a look-up leases the object and counts as a hit, and one of a kind is enough."""
TRANSFER_FAIL = -800
_METRICS = {row.name: row.metrics for row in master.SAMPLED}
COUNTED: Mapping[str, tuple[str, ...]] = {
    v.SAMPLE_KEYS: _METRICS["keys"],
    v.SAMPLE_EVICTED: _METRICS["evicted_keys"],
    v.SAMPLE_FAILURES: (*_METRICS["put_failures"], *_METRICS["get_failures"], *_METRICS["exist_failures"]),
    v.SAMPLE_USED: _METRICS["used_bytes"],
    v.SAMPLE_CAPACITY: _METRICS["capacity_bytes"],
}
"""Attribute of a sample -> the master's metrics whose sum it is."""


class _NoMasterError(Exception):
    """What answers is no master."""


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


def troubled(spans: Iterable[Span]) -> Iterator[str]:
    """Object keys whose owner is of interest: the first of a get that hangs, and that of a get whose copy failed."""
    for span in spans:
        key, running = span.attributes.get(v.FIRST_BAD_KEY), span.attributes.get(v.RUNNING)
        if span.name == v.STORE_GET and span.attributes.get(v.FIRST_BAD_CODE) == TRANSFER_FAIL and isinstance(key, str):
            yield key
        elif span.name == v.LEDGER and isinstance(running, list):
            yield from (each.rpartition(" ")[2] for each in running if isinstance(each, str))


@dataclass(slots=True)
class _Base:
    """One master: where it is asked, and what it answered last."""

    url: str
    address: str
    written: tuple[float, dict[str, int]] | None = None
    """When a sample was written last, and its values."""
    held: tuple[int, int, dict[str, int]] | None = None
    """The newest sample that was not written: start, end, values."""
    answered: float | None = None
    """When it answered last."""


class Sampler:
    """A thread that samples every master it was told of, until it is stopped.

    Of equal samples the first and the last are written, so that a change lies between two samples that are a second apart.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._bases: dict[str, _Base] = {}
        # One client for all: a new one for each question would cost 30 ms of the engine's machine, mostly for certificates.
        self._client = httpx.Client(timeout=_TIMEOUT_S, trust_env=False, verify=False)  # noqa: S501 - it speaks http only
        self._wanted: dict[str, bool] = {}
        """Object key -> whether the masters were asked where it lies."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def find(self, keys: Iterable[str]) -> None:
        """Ask the masters, once, where these objects lie."""
        for key in keys:
            if len(self._wanted) < MOST_LOOKED_UP:
                self._wanted.setdefault(key, False)

    def add(self, masters: Iterable[tuple[str, int]]) -> None:
        """Sample these masters from now on."""
        for address, port in masters:
            try:
                url = master.base_url(address, port)
            except OperatorError as error:
                self._journal.fault(str(error))
            else:
                self._bases.setdefault(url, _Base(url, address))
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
            for base in list(self._bases.values()):
                self._sample(base)
            for key in [key for key, asked in list(self._wanted.items()) if not asked]:
                self._wanted[key] = True
                for base in list(self._bases.values()):
                    self._look_up(base, key)
            self._stop.wait(max(0.1, EVERY_S - (time.monotonic() - begun)))
        for base in self._bases.values():
            self._write_held(base)
        self._client.close()

    def _sample(self, base: _Base) -> None:
        start = time.time_ns()
        try:
            values = self._asked(base.url)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, _NoMasterError) as error:
            if base.answered is None or time.monotonic() - base.answered > _OUTAGE_S:
                self._journal.fault(f"no sample of the store's master from {base.url}: {error or type(error).__name__}")
            return
        base.answered = time.monotonic()
        if base.written and values == base.written[1] and base.answered - base.written[0] < LONGEST_SILENCE_S:
            base.held = (start, time.time_ns(), values)
            return
        self._write_held(base)
        self._write(base, start, time.time_ns(), values)

    def _look_up(self, base: _Base, key: str) -> None:
        start = time.time_ns()
        try:
            copies = master.query_key(base.url, key, timeout=_TIMEOUT_S)
        except OperatorError as error:
            self._journal.fault(f"where {key} lies is not known: {error}")
            return
        if copies is not None:
            where = ", ".join(copy.endpoint for copy in copies) or None
            self._journal.span(v.STORE_REPLICA, start, time.time_ns(), {v.MASTER: base.address, v.OBJECT_KEYS: [key], v.REPLICA: where})

    def _asked(self, url: str) -> dict[str, int]:
        told = master.parse_metrics(self._page(f"{url}/metrics"))
        if "master_key_count" not in told:
            raise _NoMasterError("it answers, but not as a Mooncake master")
        values = {key: int(sum(told.get(name, 0) for name in names)) for key, names in COUNTED.items()}
        return values | {v.SAMPLE_SEGMENTS: len(self._page(f"{url}/get_all_segments").split())}

    def _page(self, url: str) -> str:
        answer = self._client.get(url)
        answer.raise_for_status()
        return answer.text

    def _write_held(self, base: _Base) -> None:
        if base.held is not None:
            self._write(base, *base.held)

    def _write(self, base: _Base, start: int, end: int, values: dict[str, int]) -> None:
        base.held, base.written = None, (time.monotonic(), values)
        self._journal.span(v.STORE_SAMPLE, start, end, {v.MASTER: base.address, **values})


def _port(text: str | None) -> int:
    return whole(text or "") or master.DEFAULT_ADMIN_PORT
