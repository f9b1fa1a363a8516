"""The queue between the engine's threads and the writer: bounded, counted, never waited for."""

import gc
import itertools
import sys
import threading
import time

import workshop
from workshop import traced

from tracers.record import Late, Queue, Record


def record(number: int) -> Record:
    """A record."""
    return ("p", 0, 0, number, 0, None, (1, "t"), (), None)


class Weighing(Late):
    """Detail that is nothing but heavy."""


def test_what_does_not_fit_is_counted_and_nothing_else() -> None:
    """Up to the limit records are kept in order; each one beyond is counted."""
    queue = Queue(3, 0)
    for number in range(10):
        queue.put(record(number))
    assert ([each[3] for each in queue.take(99)], queue.dropped) == ([0, 1, 2], 7)
    queue.put(record(11))
    assert ([each[3] for each in queue.take(99)], queue.dropped) == ([11], 7)


def test_records_that_are_sure_to_fit_never_go_beyond_the_limit() -> None:
    """The short way into the queue, opened at any time, keeps the bound, and no record is lost uncounted."""
    own = workshop.recorder(limit=50)
    wrapped = traced(lambda: None, own)
    for opened in range(20):
        own.queue.open()
        for _ in range(opened * 7):
            wrapped()
        assert len(own.queue.records) <= 50
        own.queue.take(opened)
    taken = sum(range(20))
    assert taken + len(own.queue.records) + own.queue.dropped == own.calls["p"]


def test_drops_are_counted_exactly_from_many_threads() -> None:
    """With threads switched at every turn and a writer that opens the short way, what was taken, waits and was dropped is all there was."""
    own = workshop.recorder(limit=64)
    wrapped, stop, taken = traced(lambda: None, own), threading.Event(), itertools.count()

    def writer() -> None:
        while not stop.is_set():
            own.queue.open()
            for _ in own.queue.take(7):
                next(taken)
            own.queue.sleep(0.001)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [wrapped() for _ in range(1000)]) for _ in range(8)]
        emptying = threading.Thread(target=writer)
        for thread in (emptying, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        emptying.join()
    finally:
        sys.setswitchinterval(before)
    assert next(taken) + len(own.queue.records) + own.queue.dropped == 8000
    # Only calls that ran while the short way was opened may come on top.
    assert len(own.queue.records) <= 64 + 8


def test_detail_is_weighed() -> None:
    """Detail is let in up to the weight, given back once, and refused detail is counted."""
    queue = Queue(10, 10)
    first, second = Weighing(7), Weighing(4)
    assert queue.admit(first) is first
    assert queue.admit(second) is None
    assert (queue.weight, queue.detail_dropped) == (7, 1)
    queue.release(first)
    queue.release(first)
    assert queue.weight == 0
    assert queue.admit(second) is second


def test_a_record_wakes_the_writer_at_once() -> None:
    """A writer that sleeps for long is woken by the first record."""
    own, woken = workshop.recorder(), []
    wrapped = traced(lambda: None, own)

    def writer() -> None:
        own.queue.open()
        woken.append(own.queue.sleep(30))

    sleeping = threading.Thread(target=writer)
    sleeping.start()
    deadline = time.monotonic() + 10
    while own.queue.sure and time.monotonic() < deadline:
        time.sleep(0.001)
    wrapped()
    sleeping.join(10)
    assert woken == [True]


def test_a_writer_does_not_sleep_over_a_record_that_came_before() -> None:
    """A record that came while the writer was not asleep is not waited for again."""
    queue = Queue(10, 0)
    queue.open()
    queue.put(record(1))
    began = time.monotonic()
    assert queue.sleep(30)
    assert time.monotonic() - began < 5


def test_sleep_ends_by_itself() -> None:
    """Without a record the writer comes back, to write the ledger; a stray wake before that does no harm."""
    queue = Queue(10, 0)
    assert queue.sleep(0.01) is False
    queue.wake()
    queue.wake()
    assert queue.sleep(30) is True
    assert queue.sleep(0.01) is False


def test_engine_threads_never_wait_for_a_writer_that_hangs() -> None:
    """While the writer holds on to what it took, calls go on, and what does not fit is counted."""
    own = workshop.recorder(limit=100)
    wrapped = traced(lambda: None, own)
    own.queue.open()
    began = time.monotonic()
    for _ in range(5000):
        wrapped()
    assert time.monotonic() - began < 5
    assert (len(own.queue.records), own.queue.dropped) == (100, 4900)


def test_the_collector_finds_nothing_to_follow_in_what_waits() -> None:
    """Records of plain values are left out of garbage collection, so that a long queue does not slow the engine."""
    own = workshop.recorder()
    wrapped = traced(lambda: None, own, attributes=("a", "b"), after=lambda *_: (len(own.queue.records) + 1000, "x"))
    for _ in range(100):
        wrapped()
    for _ in range(4):
        gc.collect()
    assert not any(gc.is_tracked(each) for each in own.queue.records)
