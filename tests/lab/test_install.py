"""The installer of stand-ins: names are replaced now, later, and where they were taken from, and nothing is imported for it."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import invoke
import pytest

from hicachectl.lab.stand_ins import install, rows
from hicachectl.lab.stand_ins.rows import ALWAYS, NEVER, Row


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for made-up modules; finders and modules are as before afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def row(module: str, name: str) -> Row:
    """A row that puts its own mark around what was there."""
    return Row(ALWAYS, NEVER, module, name, lambda original: ("instead of", original))


def load(name: str) -> ModuleType:
    """Import a made-up module."""
    return importlib.import_module(name)


def test_a_loaded_module_is_changed_at_once_and_a_later_one_after_its_import(package: Path) -> None:
    """Both end alike; the one that was not loaded is not loaded for it."""
    (package / "made_now.py").write_text("thing = 1\n")
    (package / "made_later.py").write_text("thing = 2\nseen = thing\n")
    now = load("made_now")
    install.install([row("made_now", "thing"), row("made_later", "thing")])
    assert now.thing == ("instead of", 1)
    assert "made_later" not in sys.modules
    later = load("made_later")
    assert later.thing == ("instead of", 2)
    assert later.seen == 2
    assert later.__spec__.loader is later.__loader__
    assert type(later.__loader__).__name__ == "SourceFileLoader"


def test_a_name_that_the_module_lacks_is_added(package: Path) -> None:
    """On a machine without a GPU upstream does not define what it does not import."""
    (package / "made_bare.py").touch()
    install.install([row("made_bare", "thing")])
    assert load("made_bare").thing == ("instead of", None)


def test_a_method_is_replaced_on_its_class(package: Path) -> None:
    """A dotted name leads into the module."""
    (package / "made_class.py").write_text("class Thing:\n    def make(self):\n        return 1\n")
    install.install([Row(ALWAYS, NEVER, "made_class", "Thing.make", lambda original: lambda self: original(self) + 1)])
    assert load("made_class").Thing().make() == 2


def test_names_taken_with_from_import_are_replaced_as_well(tmp_path: Path) -> None:
    """In SGLang's own modules only; a foreign module keeps what it took."""
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").touch()
    (tmp_path / "sglang" / "source.py").write_text("def thing(): return 'original'\n")
    (tmp_path / "sglang" / "taker.py").write_text("from sglang.source import thing\n")
    (tmp_path / "foreign.py").write_text("from sglang.source import thing\n")
    code = """
        import json, sglang.taker, foreign, sglang.source
        from hicachectl.lab.stand_ins import install
        from hicachectl.lab.stand_ins.rows import ALWAYS, NEVER, Row
        install.install([Row(ALWAYS, NEVER, "sglang.source", "thing", lambda _: lambda: "stand-in")])
        print(json.dumps([sglang.source.thing(), sglang.taker.thing(), foreign.thing()]))
    """
    assert run(code, tmp_path) == ["stand-in", "stand-in", "original"]


def run(code: str, *places: Path, env: dict[str, str] | None = None) -> object:
    """What a fresh Python, with PLACES first on its path, prints as JSON."""
    full = invoke.environment(env)
    full["PYTHONPATH"] = ":".join([*map(str, places), full["PYTHONPATH"]])
    done = subprocess.run([sys.executable, "-c", dedent(code)], env=full, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


REGISTER = """
    import json, os, sys
    from hicachectl.lab import gpu, plugin
    gpu.DEVICE_NODES = ({nodes!r},)
    plugin.register()
    print(json.dumps([type(sys.meta_path[0]).__name__, os.environ.get("HICACHECTL_STAND_IN"), "hicachectl.lab.stand_ins" in sys.modules]))
"""
NO_GPU = "no-such-device"


@pytest.mark.parametrize(
    ("switch", "nodes"), [({}, NO_GPU), ({"HICACHECTL_LAB": "0"}, NO_GPU), ({"HICACHECTL_LAB": "1"}, "null")]
)
def test_the_plugin_is_inert_unless_the_lab_asked_and_no_gpu_is_present(switch: dict[str, str], nodes: str) -> None:
    """Nothing is hooked, set or even imported."""
    finder, mark, imported = run(
        REGISTER.format(nodes=nodes), env={"HICACHECTL_LAB": "", "CUDA_VISIBLE_DEVICES": "0", **switch}
    )
    assert finder != "_AfterImport"
    assert mark is None
    assert imported is False


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed beside this Python")
def test_the_plugin_hooks_without_importing_what_it_hooks() -> None:
    """Where the lab asked and there is no GPU the finder is in place and the mark is set; HICACHECTL_OFF concerns the tracers only."""
    env = {"HICACHECTL_LAB": "1", "HICACHECTL_OFF": "1"}
    assert run(REGISTER.format(nodes=NO_GPU), env=env) == ["_AfterImport", "cpu", True]


def test_the_plugin_is_light() -> None:
    """Inside an engine it brings nothing but the standard library and the lab's own table."""
    code = """
        import json, sys
        before = set(sys.modules)
        from hicachectl.lab import plugin
        from hicachectl.lab.stand_ins import install, rows
        print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
    """
    brought = run(code)
    assert isinstance(brought, list)
    assert set(brought) - set(sys.stdlib_module_names) == {"hicachectl"}


def test_each_target_has_one_row_in_a_version() -> None:
    """Two rows for one name of one version would hide each other."""
    for version in ("0.5.14", "0.5.23"):
        targets = [(row.module, row.name) for row in rows.for_version(version)]
        assert len(targets) == len(set(targets)) > 0


def test_the_kernels_stand_in_refuses_with_a_sentence(tmp_path: Path) -> None:
    """A CPU name can be imported and says why it does not work; others are absent, as from any module."""
    code = """
        import json
        from sgl_kernel import thing_cpu
        try:
            thing_cpu(1, two=2)
        except NotImplementedError as error:
            told = str(error)
        try:
            from sgl_kernel import thing
        except ImportError:
            told += ", absent"
        print(json.dumps(told))
    """
    told = run(code, Path(install.__file__).parent / "kernels")
    assert "sgl_kernel.thing_cpu" in str(told)
    assert str(told).endswith(", absent")
