"""What a thread carries: requests reach the calls inside, notes reach the call around, and nothing leaks."""

import threading
from typing import Any

import pytest
import workshop
from workshop import records, traced

from tracers import carry


def test_notes_reach_the_innermost_carrying_call() -> None:
    """A note belongs to the call around it, is gone with it, and is no other thread's."""
    own, seen = workshop.recorder(), []

    def inner() -> None:
        carry.note("why", "x")
        carry.add("count", 2)
        carry.add("count", 3)
        thread = threading.Thread(target=lambda: seen.append(carry.noted("why")))
        thread.start()
        thread.join()

    def read(*_: Any) -> tuple[()]:
        seen.append((carry.noted("why"), carry.noted("count", 0), carry.noted("none", "default")))
        return ()

    wrapped = traced(inner, own, carries=True, after=read)
    wrapped()
    assert seen == [None, ("x", 5, "default")]
    assert carry.noted("why") is None


def test_a_frame_that_is_used_again_has_no_notes_of_its_last_call() -> None:
    """Calls one after the other do not see each other's notes, at any depth."""
    own, seen = workshop.recorder(), []

    def noting(depth: int) -> None:
        seen.append(carry.noted("k"))
        carry.note("k", depth)
        if depth:
            wrapped(depth - 1)

    wrapped = traced(noting, own, carries=True)
    wrapped(2)
    wrapped(2)
    assert seen == [None] * 6


def test_a_note_can_be_left_for_the_call_outside() -> None:
    """`pass_on` reaches one call further out, and nobody where there is none."""
    own, seen = workshop.recorder(), []
    inner = traced(lambda: carry.pass_on(reason="R12"), own, name="inner", carries=True)
    outer = traced(inner, own, name="outer", carries=True, after=lambda *_: seen.append(carry.noted("reason")) or ())
    outer()
    inner()
    assert seen == ["R12"]
    assert own.guard.total == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_is_carried_is_restored_after_an_exception(error: type[BaseException]) -> None:
    """An exception that passes through leaves the thread as the call found it, also for the calls after it."""
    own = workshop.recorder()

    def failing() -> None:
        raise error

    def outer() -> None:
        with pytest.raises(error):
            inner()
        assert carry.here.frame is not None
        assert carry.here.frame.point == "outer"
        beside()

    inner = traced(failing, own, name="inner", carries=True, rid=lambda *_: "inner's")
    beside = traced(lambda: None, own, name="beside")
    traced(outer, own, name="outer", carries=True, rid=lambda *_: "outer's")()
    assert carry.here.frame is None
    found = {record[0]: record for record in records(own)}
    assert found["beside"][5] == "outer's"
    assert found["beside"][4] == found["outer"][3]


def test_within_sees_every_call_around() -> None:
    """A call knows the calls around it, however deep."""
    own, seen = workshop.recorder(), []
    inner = traced(lambda: seen.append([carry.within(name) for name in ("a", "b", "c")]), own, name="b", carries=True)
    traced(inner, own, name="a", carries=True)()
    assert seen == [[True, True, False]]
    assert not carry.within("a")


def test_an_object_remembers_whom_it_was_made_for() -> None:
    """Work handed to another thread by an object is tied to the request that made the object."""
    own = workshop.recorder()

    class Operation:
        """Work to hand over."""

    operation = Operation()
    traced(lambda: carry.attach(operation), own, carries=True, rid=lambda *_: "r")()
    assert carry.served(operation) == "r"
    assert carry.served(Operation()) is None


def test_objects_that_take_no_attribute_are_left_alone() -> None:
    """A native object, or one with slots, cannot remember, and nothing breaks."""
    own = workshop.recorder()
    traced(lambda: carry.attach(5), own, carries=True)()
    assert own.guard.total == 0
    assert carry.served(5) is None
    carry.attach(object())
