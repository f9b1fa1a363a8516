"""How readers take an argument or an attribute of a foreign object."""

from typing import Any

from tracers.point import Args, Kwargs


def argument(args: Args, kwargs: Kwargs, index: int, name: str, default: Any = None) -> Any:
    """The argument NAME, given by position INDEX (0 is self) or by name."""
    if name in kwargs:
        return kwargs[name]
    return args[index] if len(args) > index else default


def whole(value: Any) -> int | None:
    """VALUE as an int where it is a number, else None."""
    return int(value) if isinstance(value, (int, float)) else None


def number(thing: Any, name: str) -> int | None:
    """A number that THING has under NAME, or None; a property that raises counts as none."""
    return whole(getattr(thing, name, None))


def told(thing: Any, name: str) -> Any:
    """What THING has under NAME; None also where it is not known yet (SGLang's ParallelContext raises RuntimeError or ValueError)."""
    try:
        return getattr(thing, name, None)
    except (RuntimeError, ValueError):
        return None


def in_force(settings: Any, name: str) -> Any:
    """A setting of the server as it was resolved, or None.

    From 0.5.23 on what was decided stands beside the raw input, the last decision counts (SGLang `arg_groups/overrides.py`, resolution_result).
    """
    for _, decided in reversed(getattr(settings, "_resolved_overrides", None) or ()):
        if name in decided:
            return decided[name]
    return getattr(settings, name, None)


def bigram(tree: Any) -> bool:
    """Whether keys of this tree are made of token pairs; from 0.5.23 on its core knows."""
    return bool(getattr(tree, "is_eagle", False) or getattr(getattr(tree, "tree_core", None), "is_eagle", False))


def prefix(req: Any) -> int:
    """Tokens that a request matched on the device: a number from 0.5.23 on, before that the indices themselves."""
    have = getattr(req, "prefix_len", None)
    return have if isinstance(have, int) else len(req.prefix_indices)


def text(value: Any) -> str | None:
    """VALUE as a string, None stays None."""
    return None if value is None else str(value)


def free_tokens(allocator: Any) -> int | None:
    """Free tokens of a pool (SGLang `available_size`: lengths of free lists, no device call)."""
    size = getattr(allocator, "available_size", None)
    return whole(size()) if callable(size) else None


def outcome(error: BaseException | None, *, declined: bool = False) -> str:
    """ok, failed or declined."""
    if error is not None:
        return "failed"
    return "declined" if declined else "ok"
