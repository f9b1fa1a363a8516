"""Takes the place of SGLang's CUDA kernels where they refuse to be imported without a GPU; found through PYTHONPATH, which the lab sets.

The engine imports names ending in `_cpu` on a machine without a GPU, and calls them for features that the lab does not use.
"""

from collections.abc import Callable
from typing import Any, NoReturn


def __getattr__(name: str) -> Callable[..., Any]:
    if not name.endswith("_cpu"):
        raise AttributeError(f"the lab's stand-in for sgl_kernel has no {name}: it needs a GPU")

    def refused(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"sgl_kernel.{name} is not in the lab: its CUDA wheel cannot be imported without a GPU"
        )

    refused.__name__ = name
    return refused
