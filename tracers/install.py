"""Puts wrappers on and takes them off, walking the same list; tells the ledger what landed.

A target is wrapped when its module is imported by the engine itself: nothing is imported for our sake.
"""

import importlib.machinery
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

from tracers.around import Recorder, wrap
from tracers.ledger import ABSENT, CHANGED, INSTALLED, MISSING, WAITING, Ledger
from tracers.point import SURVEYED, Point, Target


class Installer(MetaPathFinder):
    """Wraps every target of its points, now or when its module comes in."""

    def __init__(self, points: Iterable[Point], recorder: Recorder, ledger: Ledger, versions: Mapping[str, str]) -> None:
        self.rows: list[Row] = [row for point in points for row in rows(point, versions)]
        self.recorder = recorder
        self.ledger = ledger
        self.modules = frozenset(target.module for _, target, _ in self.rows)
        """Modules that hold targets; asked for every import of the process."""
        self.undo: list[tuple[str, Any, str, Any, Any]] = []
        """(point, owner, name, what was there, what we put there)."""
        self.gone: list[tuple[str, Any, str, Any, Any]] = []
        """The same, of what `off` has taken off."""
        self.paths: dict[int, str] = {}
        """Id of what we put there -> path of the target."""
        self._left: list[tuple[str, Any]] = []
        """(point, wrapper) of what `off` could not take off, for somebody else had wrapped it."""
        self._busy: set[str] = set()

    def on(self, pause: Callable[[], None] | None = None) -> None:
        """Wrap what is imported already, and listen for the rest.

        In an engine that runs, with a PAUSE between two targets, nothing is recorded before the caller says so.
        """
        self.recorder.switch(pause is None)
        for point, target, _ in self.rows:
            self.ledger.land(point.id, target.path, WAITING)
        for name in self.modules:
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self.arrived(module, pause)
        sys.meta_path.insert(0, self)

    def off(self) -> None:
        """Take every wrapper off again, in the opposite order; what somebody else has wrapped meanwhile stays, and passes through."""
        self.recorder.switch(False)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.gone = []
        while self.undo:
            point, owner, name, original, ours = self.undo.pop()
            self.gone.append((point, owner, name, original, ours))
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)
            else:
                self._left.append((point, getattr(ours, "__func__", ours)))

    def arrived(self, module: ModuleType, pause: Callable[[], None] | None = None) -> None:
        """Wrap the targets of a module that has just been imported."""
        for point, target, sure in self.rows:
            if target.module == module.__name__:
                if pause is not None:
                    pause()
                try:
                    state, detail = self._install(point, target, module)
                except Exception as fault:  # noqa: BLE001 - an odd class must not break somebody's import
                    state, detail = CHANGED, f"{type(fault).__name__}: {fault}"[:160]
                    self.recorder.guard.fault(point.id, fault)
                self._land(point, target, state if sure or state == INSTALLED else ABSENT, detail)

    def _land(self, point: Point, target: Target, state: str, detail: str) -> None:
        """Tell the ledger; another shape of a target that is installed already is not missed."""
        if state == ABSENT and self.ledger.state(point.id, target.path) == INSTALLED:
            return
        self.ledger.land(point.id, target.path, state, detail)

    def _install(self, point: Point, target: Target, module: ModuleType) -> tuple[str, str]:
        """Wrap one target; how it landed, and what differs."""
        if self.ledger.state(point.id, target.path) == INSTALLED:
            return ABSENT, ""
        *path, name = target.qualname.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part, None)
            if owner is None:
                return MISSING, f"{module.__name__} has no {target.qualname}"
        raw = vars(owner).get(name)
        if raw is None:
            return MISSING, f"{'.'.join(path) or module.__name__} does not define {name}"
        kind = type(raw) if isinstance(raw, (classmethod, staticmethod)) else None
        original: Callable[..., Any] = raw.__func__ if kind else raw
        odd = changed(original, target.params)
        if odd:
            return CHANGED, odd
        if any((point.id, inner) in self._left for inner in chain(original)):
            return INSTALLED, ""
        wrapper: Any = wrap(point.at(target), original, self.recorder)
        ours = kind(wrapper) if kind else wrapper
        setattr(owner, name, ours)
        self.undo.append((point.id, owner, name, raw, ours))
        self.paths[id(ours)] = target.path
        return INSTALLED, ""

    # -- MetaPathFinder --------------------------------------------------------------------------------------------
    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls `arrived` afterwards; None for modules of no target."""
        if fullname not in self.modules or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = self._others(fullname, path, target)
        finally:
            self._busy.discard(fullname)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Announcing(spec.loader, self)
        return spec

    def _others(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return spec
        return None


class Announcing(Loader):
    """A loader that does what the real one does, then says that the module is there."""

    def __init__(self, real: Any, installer: Installer) -> None:
        self.real = real
        self.installer = installer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """What the real loader creates."""
        module: ModuleType | None = self.real.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module through the real loader, leave no trace of this one, then wrap."""
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        module.__loader__ = self.real
        self.real.exec_module(module)
        self.installer.arrived(module)


Row = tuple[Point, Target, bool]
"""(point, target, whether this version must have it)."""


def rows(point: Point, versions: Mapping[str, str]) -> list[Row]:
    """The targets of POINT to try in this version.

    A release that was surveyed has exactly those of its range, and so has every later one until it is surveyed. Between two
    surveyed releases nobody knows which shape a target has: where the range names none, each may be the one.
    """
    known = [target for target in point.targets if expected(target, versions)]
    if known or all(_surveyed(target, versions) for target in point.targets):
        return [(point, target, True) for target in known]
    return [(point, target, False) for target in reversed(point.targets)]


def expected(target: Target, versions: Mapping[str, str]) -> bool:
    """Whether the installed version should have TARGET; a version that cannot be read is taken for a new one."""
    have = numbers(versions.get(target.package, ""))
    if not have:
        return not target.until
    return numbers(target.since) <= have and (not target.until or have < numbers(target.until))


def _surveyed(target: Target, versions: Mapping[str, str]) -> bool:
    """Whether the rows say all there is to say of the installed version: it was surveyed, or is newer than all that were."""
    have = numbers(versions.get(target.package, ""))
    seen = [numbers(version) for version in SURVEYED.get(target.package, ())]
    return not have or not seen or have in seen or have > max(seen)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `0.3.11.post1` is (0, 3, 11)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def chain(function: Any) -> Iterator[Any]:
    """FUNCTION and what it wraps, as far as it tells (`functools.wraps`)."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def changed(original: Any, params: tuple[str, ...]) -> str:
    """Empty where the leading parameters are those that the readers rely on, else what differs."""
    if inspect.iscoroutinefunction(original) or inspect.isasyncgenfunction(original) or inspect.isgeneratorfunction(original):
        return "it returns before its work is done"
    if not params:
        return ""
    try:
        names = list(inspect.signature(original).parameters)
    except (TypeError, ValueError):
        return "its signature cannot be read"
    if tuple(names[: len(params)]) != params:
        return f"parameters are ({', '.join(names[:8])}), expected ({', '.join(params)}, ...)"
    return ""
