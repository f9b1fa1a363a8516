"""Rules declare what they give and what they look for, and look for nothing else."""

import ast
import inspect
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from hicachectl import store
from hicachectl.diagnosis import codes
from hicachectl.diagnosis.rule import Case, LossRule, Rule
from hicachectl.diagnosis.rules import LOSSES, RULES
from hicachectl.model.account import account
from hicachectl.model.world import World, world
from tracers import vocabulary as v

SAMPLES = sorted(path.parent for path in (Path(__file__).parent / "samples").rglob("run.json"))
each_rule = pytest.mark.parametrize("rule", [*RULES, *LOSSES.values()], ids=lambda rule: rule.name)


def declared(rule: Rule | LossRule) -> set[str]:
    """Ids of the codes that a rule says it can give."""
    return {codes.get(code).id for code in rule.codes}


@each_rule
def test_a_rule_declares_codes_and_spans_that_exist(rule: Rule | LossRule) -> None:
    """Every code has a row, and every span that is read is one of the vocabulary; none is said twice."""
    assert len(declared(rule)) == len(rule.codes)
    assert set(rule.reads) <= v.SPANS.keys()
    assert len(set(rule.reads)) == len(rule.reads)
    assert isinstance(rule, LossRule) or set(rule.needs) <= set(rule.reads)
    assert rule.codes
    assert rule.reads


def test_every_detected_code_has_a_rule() -> None:
    """A row that says it is detected is given by a rule."""
    given = {code for rule in (*RULES, *LOSSES.values()) for code in declared(rule)}
    assert {row.id for row in codes.ALL.values() if row.detected != "no"} - given == set()


def module_of(rule: Rule | LossRule) -> Any:
    """The file of a rule."""
    judge = rule.judge if isinstance(rule, LossRule) else rule.of_case or rule.of_world
    return inspect.getmodule(judge)


def spans_named(source: str) -> set[str]:
    """Spans of the vocabulary that a piece of code names."""
    names = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "v"}
    return {getattr(v, name) for name in names} & v.SPANS.keys()


@each_rule
def test_a_rule_declares_every_span_that_its_file_looks_for(rule: Rule | LossRule) -> None:
    """What a rule's file names besides its declarations is declared by one of the file's rules."""
    module = module_of(rule)
    judging = "\n".join(inspect.getsource(each) for _, each in inspect.getmembers(module, inspect.isfunction) if each.__module__ == module.__name__)
    beside = {span for each in (*RULES, *LOSSES.values()) if module_of(each) is module for span in each.reads}
    assert spans_named(judging) - beside == set()


GIVING = ("of_request", "of_engine", "finding", "Finding")
"""Functions whose first word that is a code is the code of a finding."""


def codes_given(source: str) -> set[str]:
    """Codes that stand as words in calls which make findings."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and ast.unparse(node.func) in GIVING]
    words = {node.value for call in calls for each in call.args for node in ast.walk(each) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {codes.canonical(word) for word in words if re.fullmatch(r"[A-Z]\d{2,3}", word)}


@each_rule
def test_a_code_that_a_rule_s_file_gives_is_declared(rule: Rule | LossRule) -> None:
    """Every code of a finding that is made in the file is declared by one of the file's rules."""
    module = module_of(rule)
    beside = {code for each in (*RULES, *LOSSES.values()) if module_of(each) is module for code in declared(each)}
    assert codes_given(inspect.getsource(module)) - beside == set()


class Watched(dict[str, Any]):
    """A mapping by span name that notes which names it is asked for."""

    asked: set[str]

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name) if name in self.keys() else []

    def get(self, name: str, default: Any = None) -> Any:
        """What is under NAME, noted."""
        self.asked.add(name)
        return super().get(name, default)


BASIS = frozenset(
    {
        v.REQUEST_QUEUED, v.PREFETCH_GATE, v.PREFILL, v.REQUEST_FINISHED, v.ADMISSION, v.TREE_OPEN, v.CONTROLLER_OPEN, v.BACKEND_OPEN, v.BACKEND_ATTACH,
        v.BACKEND_CREATE, v.BACKEND_ATTACH_ASKED, v.ENGINE, v.BACKEND_CONFIG, v.ENGINE_START, v.LEDGER, v.STORE_SAMPLE, v.RESET,
    }
)  # fmt: skip
"""What the model itself asks of every request and engine: where the prompt lay, and the settings in force."""


def watched(run: Path, asked: set[str]) -> World:
    """A recording as a whole, fresh, of which every span that is looked for by name from now on is noted in ASKED."""
    seen = world(store.read([run]))
    owners: list[Any] = [*seen.engines.values(), *(attempt for journey in seen.journeys for attempt in journey.ranks)]
    for owner in owners:
        noting = Watched(owner.spans)
        noting.asked = asked
        owner.spans = noting
    return seen


@pytest.mark.parametrize("run", SAMPLES, ids=lambda path: path.name)
@each_rule
def test_a_rule_looks_only_for_what_it_declares(rule: Rule | LossRule, run: Path) -> None:
    """On a recording of the real engine a rule asks for no span but those that it declares, and those that the model rests on."""
    asked: set[str] = set()
    seen = watched(run, asked)
    for journey in seen.journeys:
        case = Case(journey, account(journey, seen), seen)
        asked.clear()
        # Which lookup counts is the model's own question, and stays answered.
        for name in [name for name, value in vars(type(journey)).items() if isinstance(value, cached_property) and name != "lookup"]:
            vars(journey).pop(name, None)
        if isinstance(rule, LossRule):
            # It is asked about a page that was not lost, which may be more than it can answer.
            with suppress(LookupError, AssertionError, TypeError):
                rule.judge(case, (0,))
        elif rule.of_case is not None:
            list(rule.of_case(case))
        assert asked - {*rule.reads} - BASIS == set()
    asked.clear()
    if isinstance(rule, Rule) and rule.of_world is not None:
        list(rule.of_world(seen))
    assert asked - {*rule.reads} - BASIS == set()
