"""One recording from start to end: COMMAND, the tail of what it writes, the samples beside it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.recorder import folder as folders
from hicachectl.recorder import forward, interpreter, sampling
from hicachectl.recorder.child import Child
from hicachectl.recorder.findings import Findings
from hicachectl.recorder.interpreter import Plugin
from hicachectl.recorder.journal import Journal
from hicachectl.recorder.metrics import Metrics
from hicachectl.recorder.screen import Screen
from hicachectl.recorder.summary import Summary
from hicachectl.store import Tail, files, ledger, shelf
from tracers.vocabulary import COLLECTOR_OVERRULED

if TYPE_CHECKING:
    from hicachectl.recorder.scrape import Endpoint

TICK_S = 1.0
_HOUSEKEEPING_TICKS = 60
_LAST_LOOKS = 1000
"""How often the tail is read at the end, so that the last summary is of all that was written."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a recording ended."""

    code: int
    """COMMAND's own exit code, 128+n for signal n."""
    folder: Path
    summary: Summary
    swept: int
    """Processes that COMMAND left behind and that were stopped."""
    checked: Plugin


def environment(outer: Mapping[str, str], folder: Path, otlp: str | None) -> dict[str, str]:
    """COMMAND's environment: OUTER with the tracers switched on, and a collector where one is named, whatever OUTER names."""
    kept = {name: value for name, value in outer.items() if not otlp or name not in COLLECTOR_OVERRULED}
    return {**kept, "HICACHECTL_TRACE": str(folder), **(collector(otlp) if otlp else {})}


def collector(url: str) -> dict[str, str]:
    """OpenTelemetry's variables for URL: grpc://HOST:4317 or http://HOST:4318 (and grpcs://, https://); UsageError otherwise."""
    scheme, found, rest = url.partition("://")
    protocols = {"grpc": "http", "grpcs": "https", "http": "http", "https": "https"}
    if not found or scheme not in protocols or not rest.strip("/"):
        raise UsageError(f"--otlp {url}: expected grpc://HOST:4317 or http://HOST:4318")
    protocol = "grpc" if scheme.startswith("grpc") else "http/protobuf"
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{protocols[scheme]}://{rest}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
    }


def check(command: Sequence[str], env: Mapping[str, str]) -> Plugin:
    """Whether the plugin will be loaded under COMMAND; UnreachableError where it certainly will not."""
    found = interpreter.of(command, env)
    state = interpreter.plugin(found)
    if found is not None and state is Plugin.absent:
        raise UnreachableError(
            f"{found.path} has no hicachectl plugin, so nothing would be recorded: install it with `{found.path} -m pip install hicachectl`"
        )
    if found is not None and state is Plugin.excluded:
        allowed = found.env.get("SGLANG_PLUGINS", "")
        raise UnreachableError(
            f"SGLANG_PLUGINS={allowed} leaves hicachectl out, so nothing would be recorded: set SGLANG_PLUGINS={allowed},hicachectl"
        )
    return state


def record(
    command: Sequence[str], *, run: Path | None, otlp: str | None, screen: Screen, endpoint: "Endpoint | None" = None
) -> Outcome:
    """Run COMMAND with the tracers on and return when it has ended; its recording is in RUN or in a new folder under home.

    ENDPOINT serves its metrics meanwhile; who has opened it closes it.
    """
    checked = check(command, {**os.environ, **(collector(otlp) if otlp else {})})
    shelf.bound()  # a wrong one is said before anything starts
    folder = folders.make(run)
    env = environment(os.environ, folder, otlp)
    try:
        folders.claim(folder, command)
        watch = Watch(folder, env, screen, endpoint)
        child = Child.start(command, env)
    except UnreachableError:
        folders.drop(folder)
        raise
    try:
        watch.begin()
        code = child.wait(watch.tick, TICK_S, screen.release)
    finally:
        watch.close()
    return Outcome(code, folder, watch.summary, child.swept, checked)


class Watch:
    """Looks at the recording about once a second. Nothing that goes wrong here may reach COMMAND: it is noted in the ledger."""

    def __init__(
        self, folder: Path, env: Mapping[str, str], screen: Screen, endpoint: "Endpoint | None" = None
    ) -> None:
        self.summary = Summary()
        self._endpoint = endpoint
        self._metrics = Metrics(folder) if endpoint is not None else None
        self._env = env
        self._folder = folder
        collector = forward.target(env)
        self._forward = forward.Forward(collector) if collector is not None else None
        self._journal = Journal(folder, self._forward.put if self._forward is not None else None)
        self._screen = screen
        self._findings = Findings(folder)
        self._tail = Tail(folder)
        self._ticks = 0
        self._sampler = sampling.Sampler(self._journal)

    def begin(self) -> None:
        """Sample the master that the environment names, and serve metrics; only now, because threads must begin with the signals blocked."""
        with self._guarded():
            if self._endpoint is not None and self._metrics is not None:
                self._endpoint.serve(self._metrics.series)
        with self._guarded():
            named = sampling.master_of(self._env)
            self._sampler.add([named] if named else [])

    def tick(self) -> None:
        """Take in what is new, and show it."""
        self._ticks += 1
        with self._guarded():
            self._look()
        self._journal.save(closed=False)
        with self._guarded():
            if self.summary.engines:
                self._findings.update(self.summary.spans)
                self.summary.findings = self._findings.levels
                if self._metrics is not None:
                    self._metrics.judge(self._findings, self.summary.spans)
                self._screen.show(self.summary)
        if self._ticks % _HOUSEKEEPING_TICKS == 0:
            with self._guarded():
                shelf.keep_below()

    def close(self) -> None:
        """Take in the rest, and close what this process wrote."""
        with self._guarded():
            self._screen.release()
        with self._guarded():
            self._sampler.stop()
        with self._guarded():
            self._look()
            for _ in range(_LAST_LOOKS):
                if not self._tail.behind():
                    break
                self._look()
        self._journal.save(closed=True)
        with self._guarded():
            self._close_forward()
        with self._guarded():
            self._count_unsent()
        with self._guarded():
            if self.summary.engines:
                self._findings.finish(self.summary.spans)
                self.summary.findings = self._findings.levels
            shelf.keep_below()

    def _count_unsent(self) -> None:
        """What the last ledgers say, for their spans may have been told before the end."""
        for path in files.ledger_files(self._folder):
            told = ledger.from_file(path)
            if told is not None and told.unsent:
                self.summary.unsent[told.engine] = told.unsent

    def _close_forward(self) -> None:
        if self._forward is not None:
            self._forward.close()
            if self._forward.fault:
                self._journal.fault(f"trace: {self._forward.fault}")
                self._journal.save(closed=True)

    def _look(self) -> None:
        spans = self._tail.look()
        self.summary.add(spans, self._tail.resources)
        if self._metrics is not None:
            self._metrics.add(spans, self._tail.resources)
        self._sampler.add(sampling.masters_in(spans, self._env))
        self._sampler.find(sampling.troubled(spans))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see the class
            self._journal.fault(f"trace: {type(error).__name__}: {error}")
