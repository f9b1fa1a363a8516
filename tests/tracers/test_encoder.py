"""OTLP/JSON by plans: what comes out is what was recorded, read by protobuf's own parser and by ours."""

import enum
import itertools
import math
import random
from typing import Any

import pytest
from desk import Desk, record

from tracers import encode
from tracers import vocabulary as v
from tracers.encode import shapes, trace_id
from tracers.points import ALL
from tracers.record import Late


@pytest.mark.parametrize(("value", "word"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_floats_that_json_lacks_are_the_words_of_otlp(value: float, word: str) -> None:
    """NaN and the infinities are written as numbers of OTLP/JSON and read back as its words, alone and in a list: no output of ours is a number that JSON lacks."""
    desk = Desk()
    (span,) = desk.spans(record((value, [value])))
    assert (span.attributes["a"], span.attributes["b"]) == (word, [word])


def test_subclasses_of_plain_kinds_are_written_as_their_values() -> None:
    """Enumerations and other subclasses of str and int, as engines like them, are written as what they stand for."""

    class Text(str, enum.Enum):
        """Text with a name."""

        ONE = "one"

    class Number(enum.IntEnum):
        """A number with a name."""

        TWO = 2

    (span,) = Desk().spans(record((Text.ONE, Number.TWO)))
    assert (span.attributes["a"], span.attributes["b"]) == ("one", 2)


NONSENSE: list[Any] = [None, 5, "ab", [1, 2], {"a": 1, "b": 2}, (1,), (1, 2, 3), (object(), 1), ({"x": 1}, 1), (1, [object()]), (b"bytes", 1), (1, {3})]


@pytest.mark.parametrize("values", NONSENSE, ids=range(len(NONSENSE)))
@pytest.mark.parametrize("first", [(1, 2), None], ids=["known", "unknown"])
def test_nonsense_of_a_reader_is_blamed_on_its_point_and_costs_no_other_span(values: Any, first: Any) -> None:
    """What is no tuple of as many plain values as the row has attributes is left out, its neighbours are written."""
    desk = Desk()
    rows = [record(first or ("x", "y"), number=1), record(values, number=2), record((), "q", number=3)]
    found = desk.spans(*rows)
    assert [span.span_id for span in found] == [desk.encoder.span_id(1), desk.encoder.span_id(3)]
    assert [point for point, _ in desk.blamed] == ["p"]
    assert desk.encoder.spans == {"p": 1, "q": 1}


class Detail(Late):
    """Detail that is worked out late."""

    def __init__(self, pairs: Any) -> None:
        super().__init__(3)
        self.told = pairs

    def pairs(self) -> list[tuple[str, Any]]:
        """What it was made with."""
        if isinstance(self.told, Exception):
            raise self.told
        return list(self.told)


def test_detail_expands_to_its_attributes_and_is_released() -> None:
    """The place of detail takes any number of attributes, none among them, and its weight is given back."""
    desk = Desk()
    details = [Detail([("x", 1), ("y", None), ("z", ["s"])]), Detail([])]
    one, two = desk.spans(*(record((detail, "b")) for detail in details))
    assert {key: one.attributes[key] for key in ("x", "z", "b")} == {"x": 1, "z": ["s"], "b": "b"}
    assert "y" not in one.attributes
    assert two.attributes["b"] == "b"
    assert desk.released == details


@pytest.mark.parametrize("told", [ValueError("v"), [("x", object())], [("x",)]], ids=["raises", "no value", "no pair"])
def test_detail_that_cannot_be_worked_out_costs_only_itself(told: Any) -> None:
    """The span is written with a mark that detail is missing, the point is blamed, the weight given back."""
    desk = Desk()
    detail = Detail(told)
    (span,) = desk.spans(record((detail, 1)))
    assert (span.attributes[v.DETAIL_CUT], span.attributes["b"]) == (True, 1)
    assert [point for point, _ in desk.blamed] == ["p"]
    assert desk.released == [detail]


def test_detail_of_a_span_that_is_given_up_is_released() -> None:
    """A reader's nonsense beside detail does not keep the detail's weight."""
    desk = Desk()
    detail = Detail([])
    desk.spans(record((detail, object())))
    assert detail in desk.released


def test_an_exception_is_told_with_status_and_class() -> None:
    """A failed call has an error status, the exception's class, and its text where the record has one."""
    one, two = Desk().spans(record((1, 2), error=("ValueError", None)), record((1, 2), error=("Odd", 'a "text"')))
    assert (one.error, one.attributes[v.ERROR]) == (True, "ValueError")
    assert v.ERROR_TEXT not in one.attributes
    assert (two.error, two.attributes[v.ERROR_TEXT]) == (True, 'a "text"')


def test_a_request_has_one_trace_on_every_rank_and_work_for_none_has_its_process_s() -> None:
    """The trace id is derived from the request id alone; without one, from the engine."""
    one, other = Desk(), Desk()
    other.encoder.rename("elsewhere:9:9")
    assert one.spans(record((1, 2), rid="r"))[0].trace_id == other.spans(record((1, 2), rid="r"))[0].trace_id
    assert one.spans(record((1, 2)))[0].trace_id != other.spans(record((1, 2)))[0].trace_id


def test_span_ids_are_of_16_digits_differ_between_processes_and_count_up() -> None:
    """Ids come from the operating system: an engine seeds `random` alike on all ranks, and ids differ all the same."""
    desks = []
    for _ in range(50):
        random.seed(1)
        desks.append(Desk().encoder)
    ids = [desk.span_id(number) for desk, number in itertools.product(desks, range(1, 100))]
    assert len(set(ids)) == len(ids)
    assert {len(each) for each in ids} == {16}
    assert all(each != "0" * 16 for each in ids)


def test_a_process_that_takes_another_identity_has_other_ids_and_traces() -> None:
    """After a fork the child's spans have ids and a trace of their own, though its plans are the parent's."""
    desk = Desk()
    (before,) = desk.spans(record((1, 2)))
    desk.encoder.rename("host:2:3")
    (after,) = desk.spans(record((1, 2)))
    assert before.span_id != after.span_id
    assert (before.trace_id, after.trace_id) == (trace_id("host:1:2"), trace_id("host:2:3"))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, threads and kinds of values that never come again do not grow the process."""
    monkeypatch.setattr(encode, "MOST_NAMES", 50)
    desk = Desk(("a",))
    for number in range(500):
        kind = type(f"Text{number}", (str,), {})
        desk.encoder.spans_of([record((kind("x"),), rid=str(number), thread=(number, "t"))])
    assert desk.blamed == []
    for held in (desk.encoder._plans, desk.encoder._requests, desk.encoder._threads):
        assert 40 < len(held) < 60


def test_every_row_that_makes_spans_has_a_shape() -> None:
    """The shapes of the rows hold their attributes in the readers' order."""
    made = shapes(ALL)
    assert {point.id: point.attributes for point in ALL if point.span} == {name: shape.keys for name, shape in made.items()}
