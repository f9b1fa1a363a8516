"""The wrapper: the original call happens once, its end passes through, and nothing of ours does."""

import functools
import inspect
import sys
import threading
from typing import Any

import pytest
import workshop
from workshop import point, records, traced

from tracers import vocabulary as v
from tracers.around import Recorder, wrap
from tracers.carry import here
from tracers.guard import Guard
from tracers.point import SKIP, Point
from tracers.record import Queue

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "carries": {"carries": True},
    "once": {"carries": True, "once": True},
    "at entry": {"at_entry": True},
    "before": {"before": lambda _args, _kwargs: 7},
    "skipped": {"before": lambda _args, _kwargs: SKIP},
    "many": {"many": True, "after": lambda *_: [("r", ()), (None, ())]},
    "rid": {"rid": lambda _args, _kwargs: "r"},
    "no span": {"span": None, "after": lambda *_: None},
    "before alone": {"span": None, "after": None, "before": lambda _args, _kwargs: None},
    "expanding": {"attributes": (v.LATE,), "after": lambda *_: (None,)},
    "nothing to say": {"after": lambda *_: None},
}
"""Every kind of row."""
each_shape = pytest.mark.parametrize("told", SHAPES.values(), ids=SHAPES)


class Engine:
    """Something to hook: it notes each call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def plain(self, one: int, two: int = 2, *, three: int = 3) -> tuple[int, int, int]:
        """A method with every kind of parameter that has a name."""
        self.calls.append((one, two, three))
        return one, two, three


@each_shape
def test_the_original_is_called_once_and_its_result_is_the_very_object(told: dict[str, Any]) -> None:
    """Whatever the row, one call is one call, and the result is not replaced."""
    made, calls = object(), []

    def original(thing: Any) -> Any:
        calls.append(thing)
        return made

    assert traced(original, workshop.recorder(), **told)("x") is made
    assert calls == ["x"]


@each_shape
@pytest.mark.parametrize("error", [ValueError("v"), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), StopIteration(1)], ids=lambda e: type(e).__name__)
def test_an_exception_passes_through_as_the_very_object(told: dict[str, Any], error: BaseException) -> None:
    """The exception that the caller catches is the one that was raised, with its own cause, whatever its class."""
    calls = []

    def original() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        traced(original, workshop.recorder(), **told)()
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None
    assert calls == [1]
    assert here.frame is None


FAILING: dict[str, dict[str, Any]] = {
    "before": {"before": lambda *_: 1 / 0},
    "rid": {"rid": lambda *_: 1 / 0},
    "after": {"after": lambda *_: 1 / 0},
    "at entry": {"at_entry": True, "after": lambda *_: 1 / 0},
    "many": {"many": True, "after": lambda *_: 1 / 0},
    "many returns a number": {"many": True, "after": lambda *_: 5},
    "many returns other rows": {"many": True, "after": lambda *_: [(1, 2, 3)]},
    "expanding returns a number": {"attributes": (v.LATE,), "after": lambda *_: 5},
}


@pytest.mark.parametrize("told", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("carries", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_reader_that_fails_is_counted_and_harms_nothing(told: dict[str, Any], carries: bool, fails: bool) -> None:
    """A reader that raises, or returns what cannot be used, changes neither result nor exception, and is counted for its point."""
    own, calls = workshop.recorder(), []

    def original() -> str:
        calls.append(1)
        if fails:
            raise LookupError
        return "x"

    wrapped = traced(original, own, **({"carries": carries} | told))
    if fails:
        with pytest.raises(LookupError):
            wrapped()
    else:
        assert wrapped() == "x"
    assert calls == [1]
    assert own.guard.faults == {"p": 1}
    assert here.frame is None
    assert records(own) == []


def test_a_point_is_retired_after_repeated_faults_and_is_then_passed_through() -> None:
    """After the guard's limit no reader is called any more, and the calls go on."""
    own, read = workshop.recorder(retire_after=3), []
    wrapped = traced(lambda: "x", own, after=lambda *_: read.append(1) or 1 / 0)
    assert [wrapped() for _ in range(10)] == ["x"] * 10
    assert (len(read), own.guard.faults, own.guard.retired) == (3, {"p": 3}, {"p"})


def test_a_point_that_is_retired_is_off_at_all_its_targets() -> None:
    """Targets of one point share its fate, other points do not."""
    own = workshop.recorder(retire_after=1)
    first, second = traced(lambda: 1, own, after=lambda *_: 1 / 0), traced(lambda: 2, own)
    other = traced(lambda: 3, own, name="q")
    assert (first(), second(), other()) == (1, 2, 3)
    assert [record[0] for record in records(own)] == ["q"]


@pytest.mark.parametrize("call", [lambda f: f(1), lambda f: f(1, 5), lambda f: f(one=1, two=4), lambda f: f(1, three=9)])
def test_arguments_arrive_as_without_us(call: Any) -> None:
    """Positions, names and defaults mean what they meant, and readers get them by position and by name."""
    seen: list[Any] = []

    class Hooked(Engine):
        """A class of this test's own."""

        plain = wrap(point(after=lambda args, kwargs, *_: seen.append((args, dict(kwargs))) or ()), Engine.plain, workshop.recorder())

    hooked = Hooked()
    assert call(hooked.plain) == call(Engine().plain)
    (args, kwargs), result = seen[0], hooked.calls[0]
    assert args == (hooked, *result[:2])
    assert kwargs == {"three": result[2]}


@pytest.mark.parametrize(
    "original",
    [
        lambda *args, **kwargs: (args, kwargs),
        lambda a, *rest, b=1, **more: (a, rest, b, more),
        functools.partial(lambda a, b, c: (a, b, c), 1),
        functools.wraps(len)(lambda *args, **kwargs: (args, kwargs)),
        max,
        lambda row, original=5: (row, original),
    ],
    ids=["any", "mixed", "partial", "decorated", "native", "names of ours"],
)
def test_callables_without_parameters_of_their_own_are_wrapped_as_well(original: Any) -> None:
    """What takes any arguments, what is native or decorated, and what uses a name of the wrapper's body, is called as before."""
    own = workshop.recorder()
    assert traced(original, own)(3, 4) == original(3, 4)
    assert len(records(own)) == 1


def test_positional_only_parameters_and_defaults_stay() -> None:
    """A wrapper has the parameters of its original: what was refused is refused in the same words."""

    def original(one: int, /, two: int = 2, *, three: int, four: int = 4) -> tuple[int, ...]:
        return one, two, three, four

    wrapped = traced(original, workshop.recorder())
    assert wrapped(1, three=3) == (1, 2, 3, 4)
    assert wrapped(1, two=5, three=3, four=6) == (1, 5, 3, 6)
    assert inspect.signature(wrapped) == inspect.signature(original)
    for wrong in ({}, {"three": 1, "one": 2}, {"three": 1, "five": 1}):
        with pytest.raises(TypeError) as refused:
            original(1, **wrong)
        with pytest.raises(TypeError, match=r"argument") as ours:
            wrapped(1, **wrong)
        assert str(ours.value) == str(refused.value)


def test_a_wrapper_looks_like_its_original() -> None:
    """Name, documentation and module are kept, and what is wrapped can be found."""
    wrapped = traced(Engine.plain, workshop.recorder())
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == ("plain", Engine.plain.__doc__, __name__)
    assert inspect.unwrap(wrapped) is Engine.plain


def test_a_generator_is_handed_on_untouched() -> None:
    """A generator that a call returns is neither advanced nor replaced, and ends with its own value."""
    steps = []

    def original() -> Any:
        def inner() -> Any:
            steps.append("begun")
            got = yield 1
            return got

        return inner()

    generator = traced(original, workshop.recorder())()
    assert inspect.isgenerator(generator)
    assert steps == []
    assert next(generator) == 1
    with pytest.raises(StopIteration) as ended:
        generator.send("done")
    assert ended.value.value == "done"


def test_a_skipped_call_leaves_nothing() -> None:
    """Where the reader before the call sees nothing, nothing is recorded, counted, or carried."""
    own, inside = workshop.recorder(), []
    wrapped = traced(lambda: inside.append(here.frame), own, before=lambda *_: SKIP, carries=True)
    wrapped()
    assert (records(own), own.calls, inside) == ([], {"p": 0}, [None])


def test_off_is_a_plain_call() -> None:
    """Switched off, a wrapper neither reads nor records; switched on again it does."""
    own, read = workshop.recorder(), []
    wrapped = traced(lambda: 5, own, before=lambda *_: read.append(1))
    own.switch(False)
    assert (wrapped(), read, records(own)) == (5, [], [])
    own.switch(True)
    assert (wrapped(), read, len(records(own))) == (5, [1], 1)


def test_calls_are_counted_exactly_from_many_threads() -> None:
    """Counts of calls do not suffer when threads are switched at every turn."""
    own = workshop.recorder(limit=100)
    wrapped = traced(lambda: None, own, carries=True)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [wrapped() for _ in range(500)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert own.calls == {"p": 4000}
    assert len(own.queue.records) + own.queue.dropped == 4000


def test_a_deep_recursion_of_the_engine_stays_its_own() -> None:
    """Where the stack is exhausted, the engine's own RecursionError comes out, and carried state is restored."""
    own = workshop.recorder(limit=100_000)

    def dive(depth: int) -> int:
        return dive(depth + 1) + 1

    dive = traced(dive, own, carries=True)
    with pytest.raises(RecursionError):
        dive(0)
    assert here.frame is None


def test_under_test_a_fault_is_loud() -> None:
    """Where the guard is told so, a reader's exception comes out, so that tests see it."""
    own = workshop.recorder()
    own.guard.loud = True
    with pytest.raises(ZeroDivisionError):
        traced(lambda: None, own, after=lambda *_: 1 / 0)()


def test_what_may_kill_the_process_is_settled_though_its_reader_fails() -> None:
    """What led to the failure is on disk before the exception passes on, even where the failure itself cannot be read, and where settling fails."""

    def fails(*_: object) -> None:
        raise RuntimeError("the engine's")

    def settle() -> bool:
        settled.append(True)
        raise OSError("ours")

    settled: list[bool] = []
    recorder = Recorder(Queue(10, 10), Guard())
    recorder.settle = settle
    row = Point("fatal", "test", "", (), span=v.FLUSH, attributes=(v.OUTCOME,), after=lambda *_: 1 / 0, fatal=True)
    with pytest.raises(RuntimeError, match="the engine's"):
        wrap(row, fails, recorder)()
    assert settled == [True]
    assert recorder.guard.faults == {"fatal": 2}
