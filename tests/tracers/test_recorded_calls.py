"""What a wrapped call leaves behind: times, numbers, requests, exceptions, and detail within its bound."""

import threading
from typing import Any

import pytest
import workshop
from workshop import records, traced, values

from tracers import vocabulary as v
from tracers.record import Late


def test_what_is_recorded_of_a_call() -> None:
    """A record has the point, both times, a number of its own, the request, the thread, and the values."""
    own = workshop.recorder()
    wrapped = traced(lambda number: number * 2, own, attributes=(v.TOKENS, v.PAGES), after=lambda args, _k, s, r, _e: (args[0], r + s), before=lambda *_: 100, rid=lambda *_: "r")
    wrapped(3)
    ((name, start, end, number, parent, rid, thread, read, error),) = records(own)
    assert (name, end - start, parent, rid, read, error) == ("p", 10, 0, "r", (3, 106), None)
    assert number > 0
    assert thread == (threading.get_native_id(), threading.current_thread().name)


def test_a_failed_call_is_recorded_without_the_exception_itself() -> None:
    """The class is told, the text only where the row asks for it, and the exception with its frames is not kept alive."""
    own = workshop.recorder()

    def original() -> None:
        raise ValueError("prompt: secret\nsecond line")

    for name, attributes, read in (("a", (), ()), ("b", (v.ERROR_TEXT,), (None,))):
        with pytest.raises(ValueError, match="secret"):
            traced(original, own, name=name, attributes=attributes, after=lambda *_, read=read: read)()
    assert [record[8] for record in records(own)] == [("ValueError", None), ("ValueError", "prompt: secret")]


def test_an_exception_that_cannot_be_printed_is_a_fault_of_the_row_alone() -> None:
    """An exception whose text raises passes through, and the row is blamed."""

    class OddError(Exception):
        """Cannot be printed."""

        def __str__(self) -> str:
            raise RuntimeError

    own = workshop.recorder()

    def original() -> None:
        raise OddError

    with pytest.raises(OddError):
        traced(original, own, attributes=(v.ERROR_TEXT,), after=lambda *_: (None,))()
    assert own.guard.faults == {"p": 1}


def test_a_call_at_entry_is_recorded_before_the_original_runs() -> None:
    """What may not live to its end is in the queue when it begins, and only once."""
    own, seen = workshop.recorder(), []
    traced(lambda: seen.append(len(own.queue.records)), own, at_entry=True, attributes=(v.TOKENS,), after=lambda *_: (5,))()
    assert seen == [1]
    ((_, start, end, *_),) = records(own)
    assert start == end


def test_many_spans_of_one_call_have_numbers_and_requests_of_their_own() -> None:
    """A batch gives a span for each request, with the times of the call."""
    own = workshop.recorder()
    traced(lambda: None, own, many=True, attributes=(v.TOKENS,), after=lambda *_: [("a", (1,)), ("b", (2,))])()
    found = records(own)
    assert [(record[5], record[7]) for record in found] == [("a", (1,)), ("b", (2,))]
    assert len({record[3] for record in found}) == 2
    assert len({record[1:3] for record in found}) == 1


def test_a_nested_call_of_a_point_that_counts_once_is_no_second_event() -> None:
    """A `super()` chain is one event of the outer call; one call after the other are two."""
    own = workshop.recorder()

    class Base:
        def work(self) -> str:
            return "base"

    class Sub(Base):
        def work(self) -> str:
            return "sub+" + super().work()

    for owner in (Base, Sub):
        owner.work = traced(owner.work, own, name="work", once=True, carries=True, after=lambda _a, _k, _s, r, _e: (r,), attributes=(v.MESSAGE,))  # type: ignore[method-assign]
    assert [Sub().work(), Base().work()] == ["sub+base", "base"]
    assert values(own) == [("sub+base",), ("base",)]


def test_a_call_inside_another_belongs_to_it() -> None:
    """A nested call has the carrying call as parent and its request; one beside it has neither."""
    own = workshop.recorder()
    inner = traced(lambda: None, own, name="inner")
    outer = traced(inner, own, name="outer", carries=True, rid=lambda *_: "r")
    outer()
    inner()
    first, second, third = records(own)
    assert (first[0], first[4], first[5]) == ("inner", second[3], "r")
    assert (third[4], third[5]) == (0, None)


def test_a_row_is_wrapped_as_its_target_reads_it() -> None:
    """Two targets of one point with readers of their own are counted together."""
    own = workshop.recorder()
    one = traced(lambda: 1, own, attributes=(v.TOKENS,), after=lambda _a, _k, _s, r, _e: (r,))
    two = traced(lambda: 2, own, attributes=(v.TOKENS,), after=lambda _a, _k, _s, r, _e: (r * 10,))
    one(), two()
    assert (values(own), own.calls) == ([(1,), (20,)], {"p": 2})


class Heavy(Late):
    """Detail of a weight."""

    def pairs(self) -> list[tuple[str, Any]]:
        """Nothing."""
        return []


def test_detail_beyond_the_bound_is_left_out_and_the_summary_stays() -> None:
    """Detail waits up to the weight that is allowed, and what is refused is counted."""
    own = workshop.recorder(weight=10)
    wrapped = traced(lambda: None, own, attributes=(v.TOKENS, v.LATE), after=lambda *_: (1, Heavy(6)))
    wrapped(), wrapped()
    assert [type(each) for _, each in values(own)] == [Heavy, type(None)]
    assert (own.queue.weight, own.queue.detail_dropped) == (6, 1)


def test_detail_of_a_span_that_is_dropped_takes_no_room() -> None:
    """A full queue gives back the weight of what it refuses, so that later detail is not refused for ever."""
    own = workshop.recorder(limit=1, weight=10)
    wrapped = traced(lambda: None, own, attributes=(v.LATE,), after=lambda *_: (Heavy(6),))
    wrapped()
    for value in values(own)[0]:
        own.queue.release(value)
    for _ in range(5):
        wrapped()
    assert (len(own.queue.records), own.queue.dropped, own.queue.weight) == (1, 4, 6)
