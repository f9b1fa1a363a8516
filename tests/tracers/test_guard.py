"""Where faults of our own end."""

import logging

import pytest

from tracers.guard import MOST_TEXTS, Guard


@pytest.fixture
def guard() -> Guard:
    """A guard that is not loud."""
    made = Guard(limit=3)
    made.loud = False
    return made


def test_faults_are_counted_named_and_said_once(guard: Guard, caplog: pytest.LogCaptureFixture) -> None:
    """Each fault is counted for its point; the first one is logged and kept as a text."""
    with caplog.at_level(logging.WARNING):
        assert [guard.fault("p", ValueError("v")) for _ in range(4)] == [False, False, True, True]
    guard.fault("q", KeyError("k"))
    assert (guard.faults, guard.total, guard.retired) == ({"p": 4, "q": 1}, 5, {"p"})
    assert guard.texts == ["p: ValueError: v", "q: KeyError: 'k'"]
    assert [each.args[0] for each in caplog.records if each.args] == ["p", "q"]


def test_a_place_that_is_no_point_is_never_retired(guard: Guard) -> None:
    """The writer may fail as often as the disk does."""
    assert not any(guard.fault("spool", OSError("full"), retires=False) for _ in range(10))
    assert (guard.retired, guard.total) == (set(), 10)


def test_texts_are_bounded(guard: Guard) -> None:
    """Of many kinds of faults the first are told, each cut."""
    for number in range(100):
        guard.fault(str(number), ValueError("x" * 1000))
    assert len(guard.texts) == MOST_TEXTS
    assert max(map(len, guard.texts)) < 200


def test_an_exception_that_cannot_be_printed_is_counted(guard: Guard) -> None:
    """Even an exception whose text raises ends here."""

    class OddError(Exception):
        """Cannot be printed."""

        def __str__(self) -> str:
            raise RuntimeError

    guard.fault("p", OddError())
    assert (guard.faults, guard.texts) == ({"p": 1}, ["p: OddError: ?"])


def test_a_log_handler_that_raises_is_survived(guard: Guard) -> None:
    """The engine's own logging may be broken in any way."""

    class Broken(logging.Handler):
        """Raises."""

        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError

    logger = logging.getLogger("hicachectl.tracers")
    broken = Broken()
    logger.addHandler(broken)
    try:
        guard.fault("p", ValueError())
    finally:
        logger.removeHandler(broken)
    assert guard.faults == {"p": 1}


def test_it_is_loud_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under test a fault is raised after it was counted."""
    monkeypatch.setenv("HICACHECTL_LOUD", "1")
    loud = Guard()
    with pytest.raises(ValueError, match="v"):
        loud.fault("p", ValueError("v"))
    assert loud.faults == {"p": 1}
    monkeypatch.setenv("HICACHECTL_LOUD", "0")
    assert not Guard().loud
