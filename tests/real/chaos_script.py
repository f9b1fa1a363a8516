"""`engine_script.py` in an engine whose tracers are sabotaged as $CHAOS says: run with the same plan, and two steps more."""

import itertools
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import engine_script

NONSENSE = (5, "ab", {"a": 1}, [], (1,) * 40, (object(),), b"\xff", 1.5, True)
"""What a reader may return that is no tuple of as many plain values as its row has attributes."""


class Sabotage(Exception):  # noqa: N818 - what is raised here is no error of the engine's
    """Raised by a reader."""


def broken_before(point):
    """POINT, whose readers before the call raise three times, and then those after it."""
    calls = itertools.count()

    def before(args, kwargs):
        if next(calls) < 3:
            raise Sabotage("before")
        return point.before(args, kwargs) if point.before else None

    return replace(point, before=before, after=_raise, targets=tuple(replace(each, before=None, after=None) for each in point.targets))


def broken_after(point):
    """POINT, whose readers after the call raise or return nonsense, in turn, and whose request is read with an error every other time."""
    calls, kinds = itertools.count(), itertools.cycle(NONSENSE)

    def after(*_):
        if next(calls) % 2:
            raise Sabotage("after")
        return next(kinds)

    return replace(point, after=after, targets=tuple(replace(each, after=None) for each in point.targets))


def _raise(*_):
    raise Sabotage("after")


def sabotage(how):
    """Break the tracers of this process before the plugin begins."""
    from tracers import parts, points, spool  # noqa: PLC0415 - only in the scheduler's process

    if how in ("before", "after"):
        points.ALL = tuple(map({"before": broken_before, "after": broken_after}[how], points.ALL))
    if how == "after":
        write, turns = spool.Spool._write_some, itertools.count()

        def failing(own):
            if not next(turns) % 3:
                raise Sabotage("writer")
            return write(own)

        spool.Spool._write_some = failing
    if flag := os.environ.get("CHAOS_HANG"):
        append = parts.Parts._append

        def hanging(own, line):
            if Path(flag).exists():
                threading.Event().wait()
            append(own, line)

        parts.Parts._append = hanging


def touch(engine, path):
    """Make a file."""
    Path(path).touch()
    return {}


def kill_scheduler(engine):
    """SIGKILL for the scheduler, which is a child of this process; when, in nanoseconds."""
    own = os.getpid()
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    children = [int(stat.split()[0]) for stat in stats if stat.rpartition(")")[2].split()[1] == str(own)]
    names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/comm").read_bytes() for pid in children}
    (scheduler,) = [pid for pid, name in names.items() if b"scheduler" in name]
    when = time.time_ns()
    os.kill(scheduler, signal.SIGKILL)
    print(f'{{"do": "kill_scheduler", "pid": {scheduler}, "ns": {when}}}', flush=True)
    os._exit(0)


engine_script.STEPS |= {"touch": touch, "kill_scheduler": kill_scheduler}

if __name__ == "__main__":
    engine_script.main()
elif __name__ == "__mp_main__" and os.environ.get("CHAOS"):
    # Processes of the engine import this file again before they load their plugins.
    sys.path.insert(0, str(Path(__file__).parent))
    sabotage(os.environ["CHAOS"])
