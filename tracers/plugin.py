"""What SGLang calls through the `sglang.srt.plugins` entry point; inert unless switched on."""

import atexit
import os
import sys
from typing import TYPE_CHECKING

from tracers import settings

if TYPE_CHECKING:
    from tracers.spool import Spool


_begun: list[int] = []
"""Process ids in which the tracers began: one entry, the fork's parent where there was one."""


def register() -> None:
    """Switch the tracers on in this process when the environment asks for it; never raises, and a second call does nothing."""
    asked = settings.read()
    if asked.folder is None or _begun:
        return
    try:
        _begin(asked)
    except Exception:  # a broken tracer must not stop an engine from starting
        import logging  # noqa: PLC0415 - only on the way out

        logging.getLogger("hicachectl.tracers").warning("the tracers could not start; the engine is not affected", exc_info=True)


def _begin(asked: settings.Settings) -> None:
    # Imported here so that a process in which we are off pays for none of it.
    from tracers import read  # noqa: PLC0415
    from tracers.around import Recorder  # noqa: PLC0415
    from tracers.encode import shapes  # noqa: PLC0415
    from tracers.guard import Guard  # noqa: PLC0415
    from tracers.install import Installer  # noqa: PLC0415
    from tracers.ledger import Ledger  # noqa: PLC0415
    from tracers.points import ALL  # noqa: PLC0415
    from tracers.record import Queue  # noqa: PLC0415
    from tracers.spool import Spool  # noqa: PLC0415

    recorder = Recorder(Queue(asked.queue, asked.detail), Guard())
    ledger = Ledger(recorder, running=read.mooncake.waiting)
    exporter = None
    if asked.collector is not None:
        from tracers.otlp import Exporter  # noqa: PLC0415

        exporter = Exporter(asked.collector)
    metrics = None
    if asked.metrics is not None:
        from tracers.otlp_metrics import Metrics  # noqa: PLC0415

        metrics = Metrics(asked.metrics, asked.interval_s)
    spool = Spool(asked, recorder, ledger, exporter, metrics)
    spool.learn(shapes(ALL))
    installer = Installer(ALL, recorder, ledger, spool.versions)
    read.process.bind(spool)
    spool.start()
    try:
        installer.on()
    except Exception:
        installer.off()
        spool.close()
        raise
    _begun.append(os.getpid())
    atexit.register(_close, spool)
    os.register_at_fork(after_in_child=lambda: recorder.sleep(lambda: _reborn(spool)))


def _reborn(spool: "Spool") -> None:
    """In a forked child, at its first traced call."""
    from tracers import read  # noqa: PLC0415 - as above

    read.mooncake.forget()
    spool.reborn()
    # A worker of multiprocessing leaves by os._exit, after its own list of things to do.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _close, args=(spool,), exitpriority=0)


def _close(spool: "Spool") -> None:
    if spool.pid == os.getpid():
        spool.close()
