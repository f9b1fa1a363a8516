"""What SGLang calls in each of its processes (`sglang.srt.plugins`, name `hicachectl_lab`): the stand-ins, if the lab asked for them.

Lives inside engine processes, so it and what it imports are light.
"""

import os
from importlib import metadata

from hicachectl.lab import gpu

SWITCH = "HICACHECTL_LAB"
STAND_IN = "HICACHECTL_STAND_IN"
"""Set to `cpu` in a process in which something was replaced, so that a recording can say so."""


def register() -> None:
    """Put the stand-ins in place; does nothing where the lab did not ask, or where a GPU is present."""
    if os.environ.get(SWITCH) != "1" or gpu.present():
        return
    from hicachectl.lab.stand_ins import install, rows  # noqa: PLC0415 - an engine without the lab does not pay for them

    install.install(rows.for_version(metadata.version("sglang")))
    os.environ[STAND_IN] = "cpu"
