"""Tracing in this process as a whole: begun when it starts or late, and ended without a trace of it left."""

import atexit
import os
import sys
import time
from typing import Any

from tracers import carry, read
from tracers.around import Recorder
from tracers.built import Built, find, shapes_in_force
from tracers.captures import Captures
from tracers.encode import shapes
from tracers.guard import Guard
from tracers.install import Installer
from tracers.ledger import BLIND, Ledger
from tracers.points import ALL
from tracers.record import Queue
from tracers.settings import Settings
from tracers.spool import Spool


class Tracing:
    """One recording of this process; the tracers are on once it is made.

    LATE, the engine has been running: what can be installed now is, what somebody holds already is bound anew or told as blind,
    nothing is recorded before all of it is in its place, and what is in force is read once. Raises what `Installer.on` raises,
    with everything off again.
    """

    def __init__(self, asked: Settings, *, late: bool = False) -> None:
        self.recorder = Recorder(Queue(asked.queue, asked.detail), Guard())
        self.ledger = Ledger(self.recorder, running=read.mooncake.waiting)
        exporter = None
        if asked.collector is not None:
            from tracers.otlp import Exporter  # noqa: PLC0415 - only where somebody asked for it

            exporter = Exporter(asked.collector)
        metrics = None
        if asked.metrics is not None:
            from tracers.otlp_metrics import Metrics  # noqa: PLC0415 - as above

            metrics = Metrics(asked.metrics, asked.interval_s)
        self.spool = Spool(asked, self.recorder, self.ledger, exporter, metrics)
        self.spool.learn(shapes(ALL))
        self.installer = Installer(ALL, self.recorder, self.ledger, self.spool.versions)
        self.captures = Captures(self.installer)
        self._finalize: Any = None
        read.process.bind(self.spool)
        read.mooncake.begin(late=late)
        self.spool.start()
        try:
            if late:
                self._join()
            else:
                self.installer.on()
        except BaseException:
            self.off()
            raise
        atexit.register(self.end)
        if late:
            self._finalize = self._before_exit()

    def _before_exit(self) -> Any:
        """A worker of multiprocessing that was forked leaves by os._exit, after its own list of things to do."""
        util = sys.modules.get("multiprocessing.util")
        return util.Finalize(None, self.end, exitpriority=0) if util is not None else None

    def _join(self) -> None:
        """Install into an engine that runs."""
        self.spool.learn(shapes_in_force())
        self.installer.on(pause=_breathe)
        built = find()
        for point, target, why in (*self.captures.bind(built.roots, _breathe), *self.captures.running()):
            self.ledger.land(point, target, BLIND, why)
        self.recorder.switch(True)
        self.ledger.scheduler = built.serves
        self.ledger.attached_ms = time.time_ns() // 1_000_000
        self._told(built)

    def _told(self, built: Built) -> None:
        for record in built.in_force(self.installer.rows, self.recorder):
            self.recorder.queue.put(record)

    @property
    def blind(self) -> list[str]:
        """Points that could not be reached everywhere."""
        return self.ledger.ids(BLIND)

    def off(self) -> None:
        """End the recording and leave the engine as it was; a call that is under way passes through. Waits a second at most for the disk."""
        atexit.unregister(self.end)
        if self._finalize is not None:
            self._finalize.cancel()
        self.recorder.switch(False)
        self.installer.off()
        self.captures.release(find().roots, _breathe)
        self.spool.close(ends=False)
        self.recorder.queue.shut()
        read.process.unbind(self.spool)
        carry.joins.clear()
        read.mooncake.begin(late=True)

    def end(self) -> None:
        """This process ends, and the recording with it."""
        if self.spool.pid == os.getpid():
            self.spool.close()

    def forked(self) -> None:
        """In a forked child: begin anew at its first traced call, for between fork and exec nothing may happen."""
        self.recorder.sleep(self._reborn)

    def _reborn(self) -> None:
        read.mooncake.forget()
        self.spool.reborn()
        self._before_exit()


def _breathe() -> None:
    """Let the engine's threads have the interpreter, which otherwise they would wait 5 ms for."""
    time.sleep(0)
