"""The tables are complete, the rooms keep to themselves, and what is declared is what is done."""

import ast
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hicachectl import exits, store
from tracers import points
from tracers import vocabulary as v
from tracers.point import Point
from tracers.points import ALL

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tracers", "hicachectl")
SAMPLES = sorted(path.parent for path in (ROOT / "tests" / "samples").rglob("run.json"))
TABLES = {"tracers/vocabulary.py", *(f"tracers/points/{path.name}" for path in (ROOT / "tracers/points").glob("*.py")), *(f"hicachectl/diagnosis/codes/{path.name}" for path in (ROOT / "hicachectl/diagnosis/codes").glob("*.py"))}
"""Files of rows, which may be as long as there is to say."""
LONGEST_FUNCTION, LONGEST_FILE = 50, 400

each_point = pytest.mark.parametrize("point", ALL, ids=lambda point: point.id)


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Every Python file in FOLDERS, by its path in the checkout."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


@cache
def text_of_tests() -> str:
    """All tests, in one string."""
    return "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))


# --- hook points ------------------------------------------------------------------------------------------------------
def test_ids_of_points_are_unique_and_say_their_layer() -> None:
    """An id names one row for ever, and a row stands in the file of its layer, of the process's, or of the binding's."""
    assert len({point.id for point in ALL}) == len(ALL)
    for name in ("backend", "buffers", "keys", "write", "prefetch", "load_back", "reuse", "evict", "mooncake"):
        rows = importlib.import_module(f"tracers.points.{name}").POINTS
        assert {point.layer for point in rows} <= {name, "process" if name == "backend" else "buffers"}
        assert set(rows) <= set(points.ALL)


@each_point
def test_a_point_speaks_the_vocabulary(point: Point) -> None:
    """Its span and attributes are declared, each attribute once, and it has a line that says what it reads."""
    assert point.span is None or point.span in v.SPANS
    assert set(point.attributes) <= {*v.ATTRIBUTES, v.LATE}
    assert len(set(point.attributes)) == len(point.attributes)
    assert re.fullmatch(r"[^\n]{10,160}", point.doc)
    assert not point.doc.endswith(".")


@each_point
def test_the_flags_of_a_point_go_together(point: Point) -> None:
    """A row makes spans only with a reader for them; what counts once has to be carried; a row of no span has no attributes."""
    readers = {target.after or point.after for target in point.targets}
    assert point.span is None or None not in readers
    assert point.span is not None or not point.attributes
    assert point.carries or not point.once
    assert not (point.at_entry and (point.carries or point.many))
    assert point.targets
    assert all(re.fullmatch(r"[\w.]+:[\w.]+", target.path) for target in point.targets)


@each_point
def test_readers_return_as_many_values_as_the_row_has_attributes(point: Point) -> None:
    """Each `return` of a reader, helpers included, is a tuple of the row's length, or None for nothing."""
    for target in point.targets:
        reader = target.after or point.after
        if reader is None or point.span is None:
            continue
        lengths = set(returned(reader, many=point.many))
        assert lengths <= {len(point.attributes)}, f"{reader.__module__}.{reader.__name__} returns {lengths} values"
        assert lengths, f"{reader.__module__}.{reader.__name__}: no return was understood"


def returned(reader: Callable[..., Any], *, many: bool) -> Iterator[int]:
    """Lengths of the tuples that READER returns, or puts into its list where it returns MANY."""
    (function,) = ast.parse(inspect.getsource(reader)).body
    if many:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and isinstance(node.args[0], ast.Tuple):
                (_, values) = node.args[0].elts
                yield from lengths_of(values, reader)
        return
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from lengths_of(node.value, reader)


def lengths_of(value: ast.expr, reader: Callable[..., Any]) -> Iterator[int]:
    """Lengths that an expression may have; None counts for nothing."""
    if isinstance(value, ast.Tuple):
        if any(isinstance(each, ast.Starred) for each in value.elts):
            head = [each for each in value.elts if not isinstance(each, ast.Starred)]
            rests = [set(lengths_of(each.value, reader)) for each in value.elts if isinstance(each, ast.Starred)]
            yield from (len(head) + sum(combination) for combination in product(rests))
        else:
            yield len(value.elts)
    elif isinstance(value, ast.IfExp):
        yield from lengths_of(value.body, reader)
        yield from lengths_of(value.orelse, reader)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        helper = reader.__globals__[value.func.id]
        yield from returned(helper, many=False)
    elif not (isinstance(value, ast.Constant) and value.value is None):
        raise AssertionError(f"{reader.__name__}: cannot tell the length of {ast.unparse(value)}")


def product(choices: list[set[int]]) -> Iterator[tuple[int, ...]]:
    """Every way to choose one of each."""
    if not choices:
        yield ()
        return
    for first in choices[0]:
        for rest in product(choices[1:]):
            yield (first, *rest)


def called_in(run: Path) -> set[str]:
    """Points that were called in a recording of the real engine."""
    return {row["id"] for path in run.glob("ledger-*.json") for row in json.loads(path.read_text())["points"] if row["calls"]}


@each_point
def test_a_point_is_covered(point: Point) -> None:
    """Each point was called in a sample of the real engine, or a test speaks of it by its id."""
    sampled = {name for run in SAMPLES for name in called_in(run)}
    named = f'"{point.id}"' in text_of_tests()
    assert named or point.id in sampled, f"no sample calls {point.id}, and no test names it"


# --- the vocabulary ---------------------------------------------------------------------------------------------------
def names_used(*folders: str) -> set[str]:
    """Names of the vocabulary that code in FOLDERS uses, as `v.NAME` or imported."""
    found: set[str] = set()
    for path, tree in sources(*folders):
        if path == "tracers/vocabulary.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("v", "vocabulary"):
                found.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and node.module == "tracers.vocabulary":
                found |= {each.name for each in node.names}
    return found


def test_every_word_is_written_by_somebody() -> None:
    """No span and no attribute is declared that neither a tracer nor the recorder writes."""
    constants = {value: name for name, value in vars(v).items() if name.isupper() and isinstance(value, str)}
    used = names_used("tracers", "hicachectl/recorder")
    assert {word for word in (*v.SPANS, *v.ATTRIBUTES, *v.RESOURCE) if constants[word] not in used} == set()


def test_words_are_declared_once_and_explained() -> None:
    """A span is no attribute; kinds are known; each has one line of meaning."""
    assert not v.SPANS.keys() & v.ATTRIBUTES.keys()
    assert {kind for kind, _, _ in v.ATTRIBUTES.values()} <= KINDS.keys()
    meanings = [*v.SPANS.values(), *(meaning for _, _, meaning in v.ATTRIBUTES.values()), *v.RESOURCE.values()]
    assert all(meaning and "\n" not in meaning for meaning in meanings)


KINDS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: type(value) is int,
    "float": lambda value: isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "strs": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "ints": lambda value: isinstance(value, list) and all(type(each) is int for each in value),
}
WRITER_S_OWN = {"thread.id": "int", "thread.name": "str", v.RID: "str", v.ERROR: "str"}
"""Attributes that the writer adds to spans of any row."""


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
def test_the_real_engine_is_told_in_the_vocabulary_s_kinds(run: Path) -> None:
    """Every span, attribute and resource of a sample is declared and has the kind that is declared, and no reader failed."""
    found = store.read([run])
    for span in found.spans:
        assert span.name in v.SPANS
        for key, value in span.attributes.items():
            kind = WRITER_S_OWN.get(key) or v.ATTRIBUTES[key][0]
            assert KINDS[kind](value), f"{span.name}: {key} is {value!r}, declared as {kind}"
    for resource in found.resources.values():
        assert resource.keys() <= v.RESOURCE.keys()
    assert [ledger.faults for ledger in found.ledgers.values() if ledger.faults] == []


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
def test_spans_of_the_real_engine_carry_the_attributes_of_their_rows(run: Path) -> None:
    """A span has no attribute but those of a row with its name, the detail that expands, and the writer's own."""
    detail = details()
    by_name: dict[str, set[str]] = {v.LEDGER: {v.PARENT_PID, *(key for key in v.ATTRIBUTES if key.startswith("hicachectl."))}, v.STORE_SAMPLE: set(v.ATTRIBUTES)}
    for point in ALL:
        if point.span is not None:
            by_name.setdefault(point.span, set()).update(point.attributes)
    for span in store.read([run]).spans:
        allowed = by_name[span.name] | WRITER_S_OWN.keys()
        allowed |= detail if {v.LATE, v.PAGE_KEYS} & by_name[span.name] else set()
        assert span.attributes.keys() <= allowed


def details() -> set[str]:
    """Attributes that the writer works out from detail."""
    tree = ast.parse((ROOT / "tracers" / "detail.py").read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "v"}
    return {getattr(v, name) for name in names if isinstance(getattr(v, name), str)} | {v.ANCHOR}


# --- rooms ------------------------------------------------------------------------------------------------------------
def imports(tree: ast.Module) -> Iterator[str]:
    """Every module that a file imports, wherever it does so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def of(name: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of PACKAGES or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


FOREIGN_TO_TRACERS = ("hicachectl", "typer", "rich", "torch", "sglang", "mooncake", "numpy", "pytest")
OPEN_TO_HICACHECTL = ("tracers.vocabulary", "tracers.point", "tracers.points", "tracers.read", "tracers.metrics", "tracers.meter")
"""Words and rows; the rows of metrics with what adds them up, so that both ways to a metric give the same number."""
HEAVY = ("torch", "sglang", "mooncake")
PROCESSES = ("hicachectl/lab/processes/", "hicachectl/lab/stand_ins/kernels/")
"""What is never imported by a command, but run beside it."""


def test_tracers_live_in_somebody_s_process_and_import_nothing_of_ours_or_of_theirs() -> None:
    """No file of the tracers imports the command line, nor the engine, nor what either brings along."""
    guilty = [(path, name) for path, tree in sources("tracers") for name in imports(tree) if of(name, FOREIGN_TO_TRACERS)]
    assert guilty == []


def test_the_command_line_knows_of_the_tracers_only_their_words_and_rows() -> None:
    """`hicachectl` imports from `tracers` the vocabulary and the rows, and nothing that lives in an engine alone."""
    names = [(path, name) for path, tree in sources("hicachectl") for name in imports(tree) if of(name, ("tracers",)) and name != "tracers"]
    assert [(path, name) for path, name in names if not of(name, OPEN_TO_HICACHECTL)] == []


def test_heavy_packages_are_imported_only_where_they_are_asked_for() -> None:
    """Nothing of the command line imports torch, SGLang or Mooncake when its file is imported."""
    guilty = [
        (path, name)
        for path, tree in sources("hicachectl")
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not path.startswith(PROCESSES)
        for name in imports(ast.Module([node], []))
        if of(name, HEAVY)
    ]
    assert guilty == []


def test_the_vocabulary_imports_nothing() -> None:
    """Both sides speak it, so it may depend on neither."""
    assert list(imports(ast.parse((ROOT / "tracers/vocabulary.py").read_text()))) == []


# --- sizes and habits -------------------------------------------------------------------------------------------------
def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file."""
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def test_functions_are_short() -> None:
    """No function is longer than fifty lines, wherever it stands."""
    long = [(path, each.name, (each.end_lineno or 0) - each.lineno + 1) for path, tree in sources(*PACKAGES, "scripts", "tests") for each in functions(tree)]
    assert [entry for entry in long if entry[2] > LONGEST_FUNCTION] == []


def test_files_are_short() -> None:
    """No file is longer than four hundred lines, tables excepted."""
    lengths = [(path, len((ROOT / path).read_text().splitlines())) for path, _ in sources(*PACKAGES, "scripts")]
    assert [(path, length) for path, length in lengths if length > LONGEST_FILE and path not in TABLES] == []


def test_every_module_says_what_room_it_is_and_every_test_what_it_holds() -> None:
    """Modules, public functions and tests have a docstring, that of a test begins with one sentence."""
    bare = [path for path, tree in sources(*PACKAGES, "tests") if not ast.get_docstring(tree)]
    for path, tree in sources(*PACKAGES):
        bare += [f"{path}: {each.name}" for each in tree.body if isinstance(each, (ast.FunctionDef, ast.ClassDef)) and not each.name.startswith("_") and not ast.get_docstring(each)]
    for path, tree in sources("tests"):
        bare += [f"{path}: {each.name}" for each in functions(tree) if each.name.startswith("test_") and not re.match(r".{14,}\.", ast.get_docstring(each) or "", re.DOTALL)]
    assert bare == []


def test_names_of_test_files_are_unique() -> None:
    """Tests are collected without packages, so two files of one name would hide each other."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


# --- exit codes -------------------------------------------------------------------------------------------------------
def test_exit_codes_are_the_contract_s() -> None:
    """0 done, 1 findings, 2 usage, 3 unreachable, 4 bad input, 130 interrupted, one class for each that is raised."""
    assert (exits.DONE, exits.FOUND, exits.USAGE, exits.UNREACHABLE, exits.BAD_INPUT, exits.INTERRUPTED) == (0, 1, 2, 3, 4, 130)
    assert set(exits.MEANINGS) == {0, 1, 2, 3, 4, 130}
    assert {each.__name__: each.exit_code for each in exits.OperatorError.__subclasses__()} == {"UsageError": 2, "UnreachableError": 3, "BadInputError": 4}


@pytest.mark.parametrize(("error", "code"), [(exits.UsageError("u"), 2), (exits.UnreachableError("u"), 3), (exits.BadInputError("b"), 4), (KeyboardInterrupt(), 130)], ids=repr)
def test_each_expected_end_has_its_code(error: BaseException, code: int) -> None:
    """The one translator turns each error into its exit code."""
    with pytest.raises(SystemExit) as left, exits.translated():
        raise error
    assert left.value.code == code


def test_commands_leave_by_names() -> None:
    """No number of an exit code stands in a command: each leaves with a name of the table, or with a code that a child gave."""
    guilty = []
    for path, tree in sources("hicachectl/commands"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "exit", "os._exit", "typer.Exit", "leave", "SystemExit"):
                guilty += [f"{path}: {ast.unparse(node)}" for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    assert guilty == []
