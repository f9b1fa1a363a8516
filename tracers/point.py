"""The frozen row: what is hooked, what is read before and after, and which rungs need it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

SURVEYED: dict[str, tuple[str, ...]] = {"sglang": ("0.5.14", "0.5.23"), "mooncake": ("0.3.11", "0.3.13")}
"""Releases whose source the rows were read from, and against which they were run."""

SKIP = object()
"""A reader before the call returns this when there is nothing to see: the call is then not recorded."""

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Before = Callable[[Args, Kwargs], Any]
"""(args, kwargs) -> state for `after`, or SKIP."""
After = Callable[[Args, Kwargs, Any, Any, "BaseException | None"], Any]
"""(args, kwargs, state, result, error) -> values in the order of `attributes`, or None to record nothing."""
Rid = Callable[[Args, Kwargs], "str | None"]


@dataclass(frozen=True, slots=True)
class Target:
    """One place to hook, and the versions that are known to have it.

    `path` is `module:Class.method`; `params` are the names that the leading parameters must have (none for a native
    method, whose signature cannot be read); `since` is the first version that has it, `until` the first that lacks it.
    A target whose version has to be read otherwise names its own readers.
    """

    path: str
    params: tuple[str, ...] = ()
    since: str = "0.5.14"
    until: str = ""
    package: str = "sglang"
    before: Before | None = None
    after: After | None = None
    rid: Rid | None = None

    @property
    def module(self) -> str:
        """Name of the module that has to be imported for this target."""
        return self.path.partition(":")[0]

    @property
    def qualname(self) -> str:
        """Dotted name inside the module."""
        return self.path.partition(":")[2]


@dataclass(frozen=True, slots=True)
class Point:
    """One hook point: every target that resolves gets the same wrapper, run by one body (`around`)."""

    id: str
    layer: str
    doc: str
    targets: tuple[Target, ...]
    span: str | None = None
    """Span name, or None for a point that only carries or counts."""
    attributes: tuple[str, ...] = ()
    before: Before | None = None
    after: After | None = None
    rid: Rid | None = None
    """Request id from the arguments; without it the id that this thread carries is used."""
    carries: bool = False
    """Calls that this call makes on the same thread belong to it."""
    once: bool = False
    """A nested call of the same point (a `super()` chain) is not a second event."""
    at_entry: bool = False
    """Written when the call begins, because the process may not live to see its end."""
    fatal: bool = False
    """A call that fails may have the process killed at once: its record is on disk before the exception passes on."""
    many: bool = False
    """`after` returns a list of (request id, values), one span each."""
    rungs: tuple[str, ...] = ()
    """Rungs of the ladder that are unknown without this point."""

    def at(self, target: Target) -> "Point":
        """This point with the readers that TARGET names."""
        if target.before is None and target.after is None and target.rid is None:
            return self
        return replace(self, before=target.before or self.before, after=target.after or self.after, rid=target.rid or self.rid)
