"""SGLang's own hook registry and the tracers on the same method: both see each call once, in either order."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installed import needs

from tracers import vocabulary as v
from tracers.around import Recorder
from tracers.guard import Guard
from tracers.install import Installer
from tracers.ledger import INSTALLED, Ledger
from tracers.point import Point, Target
from tracers.record import Queue

pytestmark = pytest.mark.real

SOURCE = """
class Thing:
    def method(self, req):
        return req * 2

    @classmethod
    def made(cls, req):
        return (cls.__name__, req)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that was not imported yet."""
    (tmp_path / "hooked_of_a_test.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield "hooked_of_a_test"
    sys.modules.pop("hooked_of_a_test", None)
    sys.meta_path[:] = finders


@pytest.fixture
def registry() -> Iterator[Any]:
    """SGLang's registry, empty before and after."""
    needs("sglang")
    from sglang.srt.plugins import hook_registry  # noqa: PLC0415 - it takes seconds, and is not everywhere

    hook_registry.HookRegistry.reset()
    yield hook_registry
    hook_registry.HookRegistry.reset()


@pytest.mark.parametrize("imported", [True, False], ids=["imported before", "imported by the registry"])
@pytest.mark.parametrize("name", ["method", "made"])
@pytest.mark.parametrize("kind", ["BEFORE", "AFTER", "AROUND"])
def test_both_see_each_call_once(module: str, registry: Any, imported: bool, name: str, kind: str) -> None:
    """Another plugin's hook of each kind, applied as SGLang applies it, runs beside ours, and the answer is the method's own."""
    seen: list[Any] = []
    hooks: dict[str, Any] = {
        "BEFORE": lambda *args, **_: seen.append(args[-1]),
        "AFTER": lambda result, *args, **_: seen.append(args[-1]),
        "AROUND": lambda original, *args, **kwargs: (seen.append(args[-1]), original(*args, **kwargs))[1],
    }
    recorder = Recorder(Queue(10, 10), Guard())
    ledger = Ledger(recorder)
    row = Point("p", "test", "", (Target(f"{module}:Thing.{name}"),), span=v.FLUSH, attributes=(v.TOKENS,), after=lambda args, *_: (args[1],))
    installer = Installer([row], recorder, ledger, {})
    if imported:
        importlib.import_module(module)
    installer.on()
    registry.HookRegistry.register(f"{module}.Thing.{name}", hooks[kind], registry.HookType[kind])
    registry.HookRegistry.apply_hooks()
    thing = importlib.import_module(module).Thing
    assert thing().method(21) == 42
    assert thing.made(21) == ("Thing", 21)
    assert seen == [21]
    assert [record[7] for record in recorder.queue.take(99)] == [(21,)]
    assert [landing.state for landing in ledger.landings.values()] == [INSTALLED]
    installer.off()
    assert (thing().method(4), thing.made(4)) == (8, ("Thing", 4))
    assert seen == [21, 4]
    assert recorder.queue.take(99) == []
