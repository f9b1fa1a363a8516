"""A recording of engines that run already: begun in each of them, watched, and ended in each of them whatever happens here."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hicachectl.exits import DONE, UnreachableError
from hicachectl.recorder import folder as folders
from hicachectl.recorder import switchboard
from hicachectl.recorder.screen import Screen
from hicachectl.recorder.session import TICK_S, Watch, collector, environment
from hicachectl.recorder.summary import Summary
from hicachectl.recorder.switchboard import Line
from hicachectl.store import shelf
from tracers import vocabulary as v

if TYPE_CHECKING:
    from hicachectl.recorder.scrape import Endpoint

HOW = "start the engine with HICACHECTL_ATTACH=1 in its environment"
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_LAST_S = 5.0
"""How long an engine may take to write its last spans."""


@dataclass(frozen=True, slots=True)
class Attached:
    """How a recording of running engines ended."""

    code: int
    """0 where it was ended from elsewhere or its time was over, 130 after Ctrl-C, 128+n after another signal."""
    folder: Path
    summary: Summary
    reasons: list[str]
    """Why engines have ended it, where they have."""
    silent: list[int]
    """Processes that did not say that they have ended it; they do as soon as they notice that nobody is there."""


@dataclass(slots=True)
class Begun:
    """What was begun in running processes."""

    lines: list[Line] = field(default_factory=list)
    schedulers: list[int] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)
    """Points that cannot be seen everywhere, because of what had begun before."""
    removed: list[int] = field(default_factory=list)
    """Processes that are gone, and whose sockets were removed."""


class _StoppedError(Exception):
    """A signal asks this process to end."""


def record(target: str, *, run: Path | None, otlp: str | None, seconds: float | None, screen: Screen, said: Callable[[Begun], None], endpoint: "Endpoint | None" = None) -> Attached:
    """Record the engines of TARGET, a process id or `all`, until somebody ends it; SAID is told what was begun.

    UsageError and UnreachableError with a sentence where nothing can be begun; then nothing is left behind.
    """
    wanted = switchboard.read_target(target)
    shelf.bound()
    more = collector(otlp) if otlp else {}
    found, removed = _ready(wanted)
    folder = folders.make(run)
    begun = Begun(removed=removed)
    try:
        folders.claim(folder, ["hicachectl", "trace", "--attach", target])
        _give(folder, wanted)
        words = {"folder": str(folder), "environment": more, "seconds": seconds}
        for pids in found:
            _begin(pids, wanted, begun, words)
        watch = Watch(folder, environment(os.environ, folder, otlp), screen, endpoint)
    except BaseException:
        end(begun.lines)
        folders.drop(folder)
        raise
    said(begun)
    reasons: list[str] = []
    silent: list[int] = []
    code = DONE
    try:
        with _signals():
            watch.begin()
            _follow(begun, wanted, words, watch, reasons, None if seconds is None else time.monotonic() + seconds)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except _StoppedError as stopped:
        code = 128 + int(stopped.args[0])
    finally:
        silent = end(begun.lines)
        watch.close()
    return Attached(code, folder, watch.summary, reasons, silent)


def detach(target: str) -> tuple[list[int], list[int]]:
    """End whatever recording the engines of TARGET have; (processes that had one, processes whose sockets were removed)."""
    wanted = switchboard.read_target(target)
    found = _listening(wanted)
    ended = []
    for pid, told in switchboard.look(found.pids, wanted):
        if told.get("on"):
            line = switchboard.call(pid, wanted)
            line.say(v.OFF)
            if line.answer().get("was"):
                ended.append(pid)
            line.close()
    return ended, found.removed


def end(lines: Iterable[Line]) -> list[int]:
    """Have each process end its recording; those that do not say so in time."""
    lines, silent = list(lines), []
    for line in lines:
        line.say(v.OFF)
    due = time.monotonic() + _LAST_S
    for line in lines:
        try:
            line.answer(max(0.1, due - time.monotonic()))
        except UnreachableError:
            silent.append(line.pid)
    _hang_up(lines)
    return silent


def _listening(wanted: int | None) -> switchboard.Found:
    found = switchboard.find(wanted)
    if not found.pids:
        who = "no engine of this user listens" if wanted is None else f"neither process {wanted} nor a child of it listens"
        raise UnreachableError(f"{who}: {HOW}")
    return found


def _ready(wanted: int | None) -> tuple[tuple[list[int], list[int]], list[int]]:
    """((servers, their schedulers), processes whose sockets were removed): all can be attached to, none is recorded already.

    Servers come first, so that their recordings begin first, as the processes did. Other processes that listen, such as workers that
    were forked, have nothing to tell.
    """
    found = _listening(wanted)
    told = dict(switchboard.look(found.pids, wanted))
    schedulers = [pid for pid, one in told.items() if one.get("scheduler")]
    if not schedulers:
        who = "the engines that listen" if wanted is None else f"process {wanted} and its children"
        raise UnreachableError(f"{who} run no scheduler: is it still starting?")
    servers = [pid for pid in told if pid not in schedulers and not switchboard.family(pid).isdisjoint(schedulers)]
    busy = next((str(told[pid].get("why")) for pid in (*servers, *schedulers) if told[pid].get("on")), None)
    if busy is not None:
        raise UnreachableError(f"{busy}: end that first, with `hicachectl trace --detach {wanted or switchboard.ALL}` where it was an attach")
    return (servers, schedulers), found.removed


def _begin(pids: Sequence[int], wanted: int | None, begun: Begun, words: dict[str, Any]) -> None:
    """Begin in all of PIDS at once; UnreachableError as soon as one refuses."""
    fresh = []
    for pid in pids:
        line = switchboard.call(pid, wanted)
        begun.lines.append(line)
        fresh.append(line)
        line.say(v.ON, **words)
    for line in fresh:
        told = line.answer()
        if not told.get("ok"):
            raise UnreachableError(str(told.get("why") or f"process {line.pid} refuses"))
        if told.get("scheduler"):
            begun.schedulers.append(line.pid)
        begun.blind = sorted({*begun.blind, *map(str, told.get("blind") or ())})


def _give(folder: Path, wanted: int | None) -> None:
    """An engine of another user, to which root attaches, must be able to write into the folder."""
    _, uid = switchboard.folder_of(wanted)
    if uid != os.geteuid():
        os.chown(folder, uid, -1)


def _follow(begun: Begun, wanted: int | None, words: dict[str, Any], watch: Watch, reasons: list[str], until: float | None) -> None:
    """Watch until every process has ended the recording, or until its time is over; processes that come meanwhile are attached to as well."""
    due = time.monotonic() + TICK_S
    known = {line.pid for line in begun.lines}
    while begun.lines:
        now = time.monotonic()
        if until is not None and now >= until:
            return
        if now >= due:
            watch.tick()
            with suppress(UnreachableError):
                _join(begun, wanted, words, known)
            due = time.monotonic() + TICK_S
        ready, _, _ = select.select(begun.lines, [], [], max(0.0, min(due, until or due) - time.monotonic()))
        for line in ready:
            line.listen()
            if line.ended is not None:
                reasons.append(f"process {line.pid}: {line.ended}")
                begun.lines.remove(line)
                line.close()


def _join(begun: Begun, wanted: int | None, words: dict[str, Any], known: set[int]) -> None:
    """Attach to schedulers that have come since."""
    for pid in switchboard.find(wanted).pids:
        if pid in known:
            continue
        late = Begun()
        try:
            told = dict(switchboard.look([pid], pid))[pid]
            if not told.get("scheduler"):
                continue
            if not told.get("on"):
                _begin([pid], wanted, late, words)
        except UnreachableError:
            _hang_up(late.lines)
        else:
            begun.lines += late.lines
        known.add(pid)


def _hang_up(lines: Iterable[Line]) -> None:
    for line in lines:
        line.close()


@contextmanager
def _signals() -> Iterator[None]:
    """Let the signals that ask for an end raise here, so that engines are detached from in order."""

    def stop(number: int, _: object) -> None:
        raise _StoppedError(number)

    before = {number: signal.signal(number, stop) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


