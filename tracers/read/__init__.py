"""Pure readers: arguments and result of an engine's call -> attribute values; one file a layer.

Foreign objects come in here, so `Any` is at home. A reader keeps numbers and strings only: no tensor, no token.
"""

from tracers.read import process

__all__ = ["process"]
