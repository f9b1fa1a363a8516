"""Methods that objects hold since before an attach, which a wrapper on the class does not reach: bound anew, or told.

An object may keep a method of another as a callback (SGLang `managers/scheduler_components/flush_wrapper.py`); the engine's own
objects are looked through, within bounds, for methods that were wrapped. What lies where nothing can be put, as in a tuple, and
threads that run such a method, are blind. At the end the same way is walked again: back comes the very object that was there,
methods that were taken in between become plain ones, and marks of ours on engine objects are removed.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MethodType
from typing import Any

from tracers.install import Installer

MARK = "_hicachectl"
"""How names begin under which readers keep something on an engine's object."""
FOREIGN = "sglang"
"""Package whose objects are looked through; what others hold is not ours to find."""
MOST_OBJECTS = 20_000
MOST_OF_A_CLASS = 1_000
MOST_ITEMS = 1_000
MOST_LOOKED_AT = 1_000_000
MOST_NODES = 200_000
EVERY = 64
"""Objects between two pauses."""

Pause = Callable[[], None]
Blind = tuple[str, str, str]
"""(point, path of the target, who holds it)."""


class Captures:
    """Methods of an installer's targets that somebody holds."""

    def __init__(self, installer: Installer) -> None:
        self._installer = installer
        self._undo: list[tuple[Any, Any, Any, Any]] = []
        """(container, key, what was there, what we put there)."""

    def bind(self, roots: Iterable[Any], pause: Pause) -> list[Blind]:
        """Let what ROOTS hold reach the wrappers; what does not, and by whom it is held."""
        wrapped = {id(original): (point, path, ours) for point, path, original, ours in self._pairs()}
        blind = []
        for container, key, held, owner in _methods(roots, pause):
            points, outermost = _along(wrapped, _function(held))
            if not points:
                continue
            fresh = MethodType(outermost, held.__self__) if type(held) is MethodType else None
            if fresh is not None and _put(container, key, held, fresh):
                self._undo.append((container, key, held, fresh))
            else:
                blind += [(*each, f"{owner} holds it since before the attach") for each in points]
        return blind

    def running(self) -> list[Blind]:
        """Targets that a thread has been running since before: its end will not be seen, what it calls is."""
        wrapped = {id(original): (point, path, ours) for point, path, original, ours in self._pairs()}
        found = []
        for thread in threading.enumerate():
            points, _ = _along(wrapped, _function(getattr(thread, "_target", None)))
            found += [(*each, f"thread {thread.name} runs it since before the attach") for each in points]
        return found

    def release(self, roots: Iterable[Any], pause: Pause) -> None:
        """Put back what was there, turn methods that were taken meanwhile into plain ones, and remove our marks."""
        roots = list(roots)
        while self._undo:
            container, key, held, fresh = self._undo.pop()
            _put(container, key, fresh, held)
        originals = {id(ours): (point, path, original) for point, path, original, ours in self._pairs(self._installer.gone)}
        for container, key, held, _ in _methods(roots, pause):
            points, original = _along(originals, _function(held))
            if points and type(held) is MethodType:
                _put(container, key, held, MethodType(original, held.__self__))
        for _, container, _ in _contents(roots, pause):
            _unmark(container)
        for root in roots:
            _unmark_nodes(root, pause)

    def _pairs(self, undo: Iterable[tuple[str, Any, str, Any, Any]] | None = None) -> list[tuple[str, str, Any, Any]]:
        """(point, path, original function, wrapper) of each method that was wrapped."""
        paths = self._installer.paths
        return [
            (point, paths[id(ours)], getattr(original, "__func__", original), getattr(ours, "__func__", ours))
            for point, owner, _, original, ours in (self._installer.undo if undo is None else undo)
            if isinstance(owner, type)
        ]


def _along(steps: Mapping[int, tuple[str, str, Any]], function: Any) -> tuple[list[tuple[str, str]], Any]:
    """(the points met, the function at the end) on the way from FUNCTION: two points may wrap one method."""
    points = []
    while id(function) in steps:
        point, path, function = steps[id(function)]
        points.append((point, path))
    return points, function


def _function(held: Any) -> Any:
    """The function behind a method or a partial; itself where there is none."""
    if type(held) is functools.partial:
        held = held.func
    return held.__func__ if type(held) is MethodType else held


def _methods(roots: Iterable[Any], pause: Pause) -> Iterator[tuple[Any, Any, Any, str]]:
    """(container, key, method or partial, whose) of every one that the objects behind ROOTS hold."""
    for owner, container, items in _contents(roots, pause):
        for key, value in items:
            if type(value) in (MethodType, functools.partial):
                yield container, key, value, owner


def _contents(roots: Iterable[Any], pause: Pause) -> Iterator[tuple[str, Any, list[tuple[Any, Any]]]]:
    """(whose, container, (key, value) of all that it holds): namespaces of SGLang's objects, and dicts, lists and tuples in them."""
    waiting = deque((type(each).__name__, each) for each in roots)
    seen, of_class = set[int](), dict[type, int]()
    looked, interest = 0, dict[type, bool]()
    while waiting and len(seen) < MOST_OBJECTS and looked < MOST_LOOKED_AT:
        owner, each = waiting.popleft()
        kind = type(each)
        of_class[kind] = of_class.get(kind, 0) + (kind not in _CONTAINERS)
        if id(each) in seen or of_class[kind] > MOST_OF_A_CLASS:
            continue
        seen.add(id(each))
        if not len(seen) % EVERY:
            pause()
        whose = owner if kind in _CONTAINERS else kind.__name__
        container, items = _items(each)
        looked += len(items)
        yield whose, container, items
        for _, value in items:
            told = interest.get(type(value))
            if told is None:
                told = interest[type(value)] = _of_interest(type(value))
            if told:
                waiting.append((whose, value))


_CONTAINERS = (dict, list, tuple, deque)


def _of_interest(kind: type) -> bool:
    """Whether objects of this class may hold a callback: SGLang's own, but no layers of a model, and containers."""
    if kind in _CONTAINERS:
        return True
    return kind.__module__.partition(".")[0] == FOREIGN and not issubclass(kind, type) and not hasattr(kind, "named_parameters")


def _items(each: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """What an object holds and where; copied in one step, for the engine goes on."""
    if type(each) in (list, tuple, deque):
        return each, list(enumerate(tuple(each) if len(each) <= MOST_ITEMS else ()))
    space = each if type(each) is dict else getattr(each, "__dict__", None)
    if type(space) is not dict:
        return each, _slots(each)
    return space, list(space.items()) if len(space) <= MOST_ITEMS else []


def _slots(each: Any) -> list[tuple[Any, Any]]:
    names = [name for kind in type(each).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    return [(name, getattr(each, name)) for name in names if hasattr(each, name)]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _put(container: Any, key: Any, old: Any, new: Any) -> bool:
    """Put NEW in the place of OLD, where that is still OLD; whether it is there."""
    try:
        if type(container) in (dict, list, deque):
            if (container.get(key) if type(container) is dict else container[key]) is not old:
                return False
            container[key] = new
        elif type(container) is tuple or getattr(container, key) is not old:
            return False
        else:
            setattr(container, key, new)
    except (AttributeError, IndexError, TypeError, RuntimeError):
        return False
    return True


def _unmark(space: Any) -> None:
    if type(space) is dict:
        for name in [name for name in list(space) if isinstance(name, str) and name.startswith(MARK)]:
            space.pop(name, None)


def _unmark_nodes(root: Any, pause: Pause) -> None:
    """The nodes of a prefix tree, which are many."""
    waiting = [getattr(root, "__dict__", {}).get("root_node")]
    for count in range(MOST_NODES):
        if not waiting:
            break
        space = getattr(waiting.pop(), "__dict__", {})
        _unmark(space)
        children = space.get("children")
        if isinstance(children, dict):
            waiting.extend(tuple(children.values()))
        if not count % EVERY:
            pause()



