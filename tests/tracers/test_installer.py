"""Wrappers go on when the engine imports a module, and come off without a trace; what does not fit is told, and left alone."""

import functools
import importlib
import importlib.abc
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workshop
from workshop import records

from hicachectl.lab.stand_ins.install import install as install_stand_ins
from hicachectl.lab.stand_ins.rows import ALWAYS, NEVER
from hicachectl.lab.stand_ins.rows import Row as StandIn
from tracers import vocabulary as v
from tracers.install import Installer, expected, numbers, rows
from tracers.ledger import ABSENT, CHANGED, INSTALLED, MISSING, WAITING, Ledger
from tracers.point import SURVEYED, Point, Target

SOURCE = '''
"""A module of an engine."""

class Base:
    def method(self, req):
        return ("base", req)

    @classmethod
    def made(cls, name):
        return (cls.__name__, name)

    @staticmethod
    def pure(number):
        return number + 1

    def inherited(self, req):
        return req

    async def later(self, req):
        return req

    def steps(self, req):
        yield req

    constant = 5

class Sub(Base):
    def method(self, req):
        return ("sub", *super().method(req))

def function(req):
    return req

IMPORTED_AS = __spec__.loader.__class__.__name__
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that can be imported and was not yet."""
    name = "engine_of_a_test"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    (tmp_path / "another_of_a_test.py").write_text("VALUE = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield name
    sys.modules.pop(name, None)
    sys.modules.pop("another_of_a_test", None)
    sys.meta_path[:] = finders


class Hooks:
    """An installer of one point for each target, with its ledger."""

    def __init__(self, *targets: Target | str, versions: dict[str, str] | None = None, **told: Any) -> None:
        self.recorder = workshop.recorder()
        self.ledger = Ledger(self.recorder)
        made = [target if isinstance(target, Target) else Target(f"engine_of_a_test:{target}") for target in targets]
        points = [Point(target.qualname, "test", "", (target,), span=v.FLUSH, after=workshop.nothing_read, **told) for target in made]
        self.installer = Installer(points, self.recorder, self.ledger, versions or {"sglang": "0.5.14"})

    def states(self) -> dict[str, str]:
        """How each target landed."""
        return {landing.point: landing.state for landing in self.ledger.landings.values()}

    def seen(self) -> list[str]:
        """Points of what was recorded so far."""
        return [record[0] for record in records(self.recorder)]


EVERY = ("Base.method", "Base.made", "Base.pure", "Base.inherited", "Sub.method", "function")


def attributes(loaded: Any) -> dict[str, Any]:
    """What classes and module hold under the names of the targets."""
    return {name: inspect.getattr_static(loaded if "." not in name else getattr(loaded, name.partition(".")[0]), name.rpartition(".")[2]) for name in EVERY}


@pytest.mark.parametrize("imported", [True, False], ids=["imported before", "imported after"])
def test_every_kind_of_target_is_wrapped_and_comes_off_identically(module: str, imported: bool) -> None:
    """Methods, class methods, static methods, functions: they record, behave as before, and after `off` are the very objects that were there."""
    if imported:
        importlib.import_module(module)
    hooks = Hooks(*EVERY)
    before = attributes(importlib.import_module(module)) if imported else None
    hooks.installer.on()
    loaded = importlib.import_module(module)
    assert hooks.states() == dict.fromkeys(EVERY, INSTALLED)
    sub = loaded.Sub()
    answers = (sub.method(1), loaded.Sub.made("n"), sub.made("n"), loaded.Base.pure(1), sub.inherited(2), loaded.function(3))
    assert answers == (("sub", "base", 1), ("Sub", "n"), ("Sub", "n"), 2, 2, 3)
    assert hooks.seen() == ["Base.method", "Sub.method", "Base.made", "Base.made", "Base.pure", "Base.inherited", "function"]
    hooks.installer.off()
    after = attributes(loaded)
    assert before is None or all(after[name] is before[name] for name in EVERY)
    assert not any(hasattr(getattr(raw, "__func__", raw), "__wrapped__") for raw in after.values())
    assert "inherited" not in vars(loaded.Sub)
    assert (sub.method(1), hooks.seen()) == (("sub", "base", 1), [])
    assert hooks.installer not in sys.meta_path


def test_an_import_is_as_it_would_be(module: str) -> None:
    """A module that was announced has the loader, the spec and the source that it would have without us."""
    plain = importlib.import_module(module)
    expected_loader, expected_name = type(plain.__loader__), plain.IMPORTED_AS
    del sys.modules[module]
    hooks = Hooks("function")
    hooks.installer.on()
    loaded = importlib.import_module(module)
    assert (type(loaded.__loader__), type(loaded.__spec__.loader), loaded.IMPORTED_AS) == (expected_loader, expected_loader, expected_name)
    assert "def inherited" in inspect.getsource(loaded)
    again = importlib.reload(loaded)
    assert again.function(1) == 1
    assert hooks.states()["function"] == INSTALLED


def test_an_import_that_fails_fails_as_it_would(module: str, tmp_path: Path) -> None:
    """An engine's module that raises raises the same, and can be imported once it is mended."""
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('not now')")
    hooks = Hooks("function")
    hooks.installer.on()
    with pytest.raises(RuntimeError, match="not now"):
        importlib.import_module(module)
    assert hooks.states() == {"function": WAITING}
    (tmp_path / f"{module}.py").write_text(SOURCE + "\n# mended\n")
    importlib.invalidate_caches()
    assert importlib.import_module(module).function(4) == 4
    assert hooks.seen() == ["function"]


def test_modules_of_no_target_are_none_of_our_business(module: str) -> None:
    """Other imports get no answer from us, and what cannot be found is not found."""
    hooks = Hooks("function", Target("no_such_module_of_a_test:f"))
    hooks.installer.on()
    assert hooks.installer.find_spec("another_of_a_test") is None
    assert importlib.import_module("another_of_a_test").VALUE == 1
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_of_a_test")
    assert importlib.util.find_spec("no_such_module_of_a_test") is None
    assert hooks.states() == {"function": WAITING, "f": WAITING}
    assert module not in sys.modules


class Asking(importlib.abc.MetaPathFinder):
    """A finder that asks all others in its turn, as some plugins do."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.busy = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """What the others find."""
        if self.busy or not name.endswith("_of_a_test"):
            return None
        self.busy = True
        try:
            self.asked.append(name)
            found = [finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self]
            return next((spec for spec in found if spec is not None), None)
        finally:
            self.busy = False


@pytest.mark.parametrize("first", [True, False], ids=["before us", "after us"])
def test_finders_that_ask_all_others_get_along(module: str, first: bool) -> None:
    """A finder that asks the others, in front of us or behind us, finds the module once, and it is wrapped once."""
    hooks, asking = Hooks("function"), Asking()
    if not first:
        hooks.installer.on()
    sys.meta_path.insert(0, asking)
    if first:
        hooks.installer.on()
    assert importlib.import_module(module).function(1) == 1
    assert hooks.seen() == ["function"]
    assert asking.asked


@pytest.mark.parametrize("first", [True, False], ids=["stand-ins first", "tracers first"])
def test_stand_ins_and_tracers_install_together(module: str, first: bool) -> None:
    """The lab's stand-ins and the tracers follow the same module, in either order; both are in place."""
    hooks = Hooks("Base.method", "function")
    stand_in = StandIn(ALWAYS, NEVER, module, "Base.pure", lambda _: staticmethod(lambda _number: "stand-in"))
    steps = [lambda: install_stand_ins([stand_in]), hooks.installer.on]
    for step in steps if first else reversed(steps):
        step()
    loaded = importlib.import_module(module)
    assert (loaded.Base.pure(1), loaded.Base().method(2), loaded.function(3)) == ("stand-in", ("base", 2), 3)
    assert hooks.seen() == ["Base.method", "function"]


def test_a_target_with_other_parameters_is_left_alone_and_told(module: str) -> None:
    """Where the readers would read the wrong argument nothing is wrapped; the ledger says what differs."""
    hooks = Hooks(Target(f"{module}:Base.method", ("self", "batch")), Target(f"{module}:function", ("req",)))
    hooks.installer.on()
    loaded = importlib.import_module(module)
    assert hooks.states() == {"Base.method": CHANGED, "function": INSTALLED}
    (changed,) = [landing for landing in hooks.ledger.landings.values() if landing.state == CHANGED]
    assert changed.detail == "parameters are (self, req), expected (self, batch, ...)"
    assert not hasattr(loaded.Base.method, "__wrapped__")


@pytest.mark.parametrize("name", ["later", "steps"])
def test_a_target_that_returns_before_its_work_is_done_is_told_changed(module: str, name: str) -> None:
    """A function that became a coroutine or a generator cannot be timed by its call: it is left alone."""
    hooks = Hooks(f"Base.{name}")
    hooks.installer.on()
    importlib.import_module(module)
    assert hooks.states() == {f"Base.{name}": CHANGED}


@pytest.mark.parametrize("name", ["Base.none", "None.method", "Sub.inherited", "Base.method.deeper"])
def test_a_target_that_is_not_there_is_told_missing(module: str, name: str) -> None:
    """What the module lacks, or what a class only inherits, is missing; nothing is added to the class."""
    hooks = Hooks(name)
    hooks.installer.on()
    loaded = importlib.import_module(module)
    assert hooks.states() == {name.rsplit(":", maxsplit=1)[-1]: MISSING}
    assert "inherited" not in vars(loaded.Sub)


def test_an_odd_target_breaks_no_import(module: str, tmp_path: Path) -> None:
    """A class that refuses to be changed, or a target that is no function, is told, and the module is imported."""
    odd = textwrap.dedent("""
        class Meta(type):
            def __setattr__(cls, name, value):
                raise AttributeError("read only")

        class Frozen(metaclass=Meta):
            def method(self):
                return 1
    """)
    (tmp_path / f"{module}.py").write_text(SOURCE + odd)
    hooks = Hooks("Frozen.method", Target(f"{module}:Base.constant", ("self",)))
    hooks.installer.on()
    loaded = importlib.import_module(module)
    assert loaded.Frozen().method() == 1
    assert hooks.states() == {"Frozen.method": CHANGED, "Base.constant": CHANGED}
    assert loaded.Base.constant == 5


def test_a_wrapper_of_somebody_else_s_that_came_later_stays(module: str) -> None:
    """Another plugin wraps the same method after us: both see the calls; `off` leaves the other's in place, and ours passes through; `on` again records once."""
    hooks, theirs = Hooks("Base.method", "Base.made"), []
    hooks.installer.on()
    loaded = importlib.import_module(module)
    ours = loaded.Base.method

    @functools.wraps(ours)
    def other(*args: Any) -> Any:
        theirs.append(args[1])
        return ours(*args)

    loaded.Base.method = other
    assert loaded.Base().method(1) == ("base", 1)
    assert (hooks.seen(), theirs) == (["Base.method"], [1])
    hooks.installer.off()
    assert loaded.Base.method is other
    assert loaded.Base().method(2) == ("base", 2)
    assert (hooks.seen(), theirs) == ([], [1, 2])
    assert not hasattr(loaded.Base.made, "__wrapped__")
    hooks.installer.on()
    assert loaded.Base().method(3) == ("base", 3)
    assert (hooks.seen(), theirs) == (["Base.method"], [1, 2, 3])


def test_a_wrapper_of_somebody_else_s_that_came_first_is_wrapped(module: str) -> None:
    """Another plugin that wrapped the method before us, and tells what it wraps, does not hide the parameters; `off` gives its wrapper back."""
    loaded, theirs = importlib.import_module(module), []
    original = loaded.Base.method

    @functools.wraps(original)
    def other(*args: Any) -> Any:
        theirs.append(args[1])
        return original(*args)

    loaded.Base.method = other
    hooks = Hooks(Target(f"{module}:Base.method", ("self", "req")))
    hooks.installer.on()
    assert loaded.Base().method(1) == ("base", 1)
    assert (hooks.seen(), theirs) == (["Base.method"], [1])
    hooks.installer.off()
    assert loaded.Base.method is other


def test_two_points_on_one_target_both_see_it(module: str) -> None:
    """A method may be read by two points; both come off."""
    recorder = workshop.recorder()
    ledger = Ledger(recorder)
    points = [Point(name, "test", "", (Target(f"{module}:function"),), span=v.FLUSH, after=workshop.nothing_read) for name in ("a", "b")]
    installer = Installer(points, recorder, ledger, {})
    installer.on()
    loaded = importlib.import_module(module)
    loaded.function(1)
    assert sorted(record[0] for record in records(recorder)) == ["a", "b"]
    installer.off()
    assert not hasattr(loaded.function, "__wrapped__")


def test_on_and_off_can_be_repeated(module: str) -> None:
    """Switching on and off many times leaves one wrapper while on, none while off."""
    hooks = Hooks("Base.method")
    loaded = importlib.import_module(module)
    original = loaded.Base.method
    for _ in range(3):
        hooks.installer.on()
        loaded.Base().method(1)
        assert hooks.seen() == ["Base.method"]
        hooks.installer.off()
        assert loaded.Base.method is original


# --- versions ---------------------------------------------------------------------------------------------------------
def test_numbers_of_a_version() -> None:
    """Leading numbers are compared as numbers; what follows them is not looked at."""
    assert [numbers(text) for text in ("0.3.11.post1", "0.5.14", "1.0rc1", "main", "")] == [(0, 3, 11), (0, 5, 14), (1, 0), (), ()]
    assert numbers("0.5.9") < numbers("0.5.14") < numbers("0.5.14.1")


@pytest.mark.parametrize(
    ("version", "since", "until", "there"),
    [
        ("0.5.14", "0.5.14", "", True),
        ("0.5.13", "0.5.14", "", False),
        ("0.5.14", "0.5.14", "0.5.15", True),
        ("0.5.15", "0.5.14", "0.5.15", False),
        ("0.5.23", "0.5.23", "", True),
        ("0.5.14.post3", "0.5.14", "0.5.15", True),
        ("", "0.5.14", "", True),
        ("", "0.5.14", "0.5.15", False),
        ("unknown", "0.5.14", "0.5.15", False),
    ],
)
def test_a_target_is_expected_in_its_range(version: str, since: str, until: str, there: bool) -> None:
    """`since` is the first version that has a target, `until` the first that lacks it; an unreadable version counts as new."""
    assert expected(Target("m:f", since=since, until=until), {"sglang": version}) is there


def two_shapes(module: str = "engine_of_a_test") -> Point:
    """A point whose target has another shape from 0.5.23 on."""
    old = Target(f"{module}:Base.method", until="0.5.15")
    new = Target(f"{module}:Base.none", since="0.5.23")
    return Point("p", "test", "", (old, new), span=v.FLUSH, after=workshop.nothing_read)


def test_a_surveyed_release_has_exactly_its_own_targets() -> None:
    """Releases that the rows were read from get the targets of their range, and so do later ones."""
    assert SURVEYED["sglang"] == ("0.5.14", "0.5.23")
    found = {version: [(target.qualname, sure) for _, target, sure in rows(two_shapes(), {"sglang": version})] for version in ("0.5.14", "0.5.23", "0.6.0")}
    assert found == {"0.5.14": [("Base.method", True)], "0.5.23": [("Base.none", True)], "0.6.0": [("Base.none", True)]}


def test_between_surveyed_releases_each_shape_is_tried(module: str) -> None:
    """Where nobody knows which shape a target has, the one that is there is wrapped and the other is not missed."""
    recorder = workshop.recorder()
    ledger = Ledger(recorder)
    installer = Installer([two_shapes(module)], recorder, ledger, {"sglang": "0.5.18"})
    installer.on()
    importlib.import_module(module)
    assert sorted(landing.state for landing in ledger.landings.values()) == sorted([INSTALLED, ABSENT])
    assert ledger.ids(MISSING) == []
