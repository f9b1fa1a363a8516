"""Says on which rung a KV cache prefix stopped, from recordings and from a live store."""

__version__ = "0.1.0"
