"""What SGLang calls through the `sglang.srt.plugins` entry point; inert unless switched on."""

import os
from typing import TYPE_CHECKING

from tracers import settings

if TYPE_CHECKING:
    from tracers.control import Attaching

_begun: list[int] = []
"""Process ids in which the tracers began: one entry, the fork's parent where there was one."""
_listening: "list[Attaching]" = []
"""What lets the tracers be switched on later: one entry, the fork's parent's where there was one."""


def register() -> None:
    """Switch the tracers on in this process, or have it listen for an attach, as the environment asks; never raises, and a second call does nothing."""
    asked = settings.read()
    try:
        if asked.folder is not None and not _begun:
            _begin(asked)
        if asked.attach is not None:
            _listen(asked)
    except Exception:  # a broken tracer must not stop an engine from starting
        import logging  # noqa: PLC0415 - only on the way out

        logging.getLogger("hicachectl.tracers").warning("the tracers could not start; the engine is not affected", exc_info=True)


def _begin(asked: settings.Settings) -> None:
    # Imported here so that a process in which we are off pays for none of it.
    from tracers.switch import Tracing  # noqa: PLC0415

    tracing = Tracing(asked)
    _begun.append(os.getpid())
    os.register_at_fork(after_in_child=tracing.forked)


def _listen(asked: settings.Settings) -> None:
    from tracers.control import Attaching  # noqa: PLC0415 - as above

    if not _listening:
        _listening.append(Attaching(asked))
    _listening[0].listen()
