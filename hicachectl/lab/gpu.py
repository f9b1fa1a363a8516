"""Whether a GPU can be used here, decided by looking at device nodes: CUDA is not initialised in a process that may fork."""

import os
from pathlib import Path

DEVICE_NODES = ("nvidia[0-9]*", "dxg", "kfd")
"""NVIDIA, the same under WSL, AMD."""
_HIDDEN = {"", "-1"}


def present() -> bool:
    """Whether a GPU is here and not hidden by an empty CUDA_VISIBLE_DEVICES."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in _HIDDEN:
        return False
    return any(any(Path("/dev").glob(pattern)) for pattern in DEVICE_NODES)
