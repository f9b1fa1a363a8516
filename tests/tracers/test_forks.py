"""Forks: a child records for itself, nothing happens before exec, and no lock of the parent's is waited for."""

from pathlib import Path

from processes import recorded

from hicachectl import store
from hicachectl.store.recording import Recording
from tracers import vocabulary as v


def flushes(found: Recording) -> dict[str, int]:
    """Recorded calls by process."""
    count: dict[str, int] = {}
    for span in found.spans:
        if span.name == v.FLUSH:
            count[span.engine] = count.get(span.engine, 0) + 1
    return count


def test_a_child_records_to_files_of_its_own(tmp_path: Path) -> None:
    """Parent and child each have their own calls, in their own file, with ids that do not meet; both recordings are complete."""
    script = """
    for _ in range(3): scheduler.flush_cache()
    child = os.fork()
    for _ in range(2 if child == 0 else 5): scheduler.flush_cache()
    if child: os.waitpid(child, 0)
    """
    assert recorded(tmp_path, script).returncode == 0
    found = store.read([tmp_path / "run"])
    assert sorted(flushes(found).values()) == [2, 8]
    assert found.incomplete == []
    assert len({span.span_id for span in found.spans}) == len(found.spans)
    told = {ledger.pid: {point.id: point.calls for point in ledger.points}["evict.flush"] for ledger in found.ledgers.values()}
    assert sorted(told.values()) == [2, 8]
    threads = {span.engine: span.attributes["thread.id"] for span in found.spans if span.name == v.FLUSH}
    assert len(set(threads.values())) == 2


def test_a_child_that_does_nothing_leaves_nothing(tmp_path: Path) -> None:
    """A fork without traced calls has no writer, no file, no ledger, and takes nothing that the parent has queued."""
    script = """
    for _ in range(100): scheduler.flush_cache()
    child = os.fork()
    if child == 0:
        assert threading.active_count() == 1
        sys.exit()
    os.waitpid(child, 0)
    """
    assert recorded(tmp_path, script).returncode == 0
    found = store.read([tmp_path / "run"])
    assert list(flushes(found).values()) == [100]
    assert len(list((tmp_path / "run").iterdir())) == 3


def test_a_child_of_a_child_records_too(tmp_path: Path) -> None:
    """Forks of forks have files of their own, also where the one between did nothing."""
    script = """
    scheduler.flush_cache()
    if os.fork() == 0:
        if os.fork() == 0:
            scheduler.flush_cache()
            sys.exit()
        os.wait()
        sys.exit()
    os.wait()
    """
    assert recorded(tmp_path, script).returncode == 0
    assert list(flushes(store.read([tmp_path / "run"])).values()) == [1, 1]


def test_a_fork_inside_a_traced_call_begins_afresh(tmp_path: Path) -> None:
    """The call that is under way belongs to the parent alone: the child's spans have no parent in another process."""
    script = """
    import sglang.srt.managers.scheduler as module
    def run_batch(self, batch):
        if os.fork() == 0:
            self.flush_cache()
            sys.exit()
        os.wait()
    from tracers.point import Point, Target
    from tracers.around import wrap
    row = Scheduler.flush_cache.__closure__
    recorder = next(cell.cell_contents.recorder for cell in row if hasattr(cell.cell_contents, "recorder"))
    outer = wrap(Point("outer", "t", "", (), after=lambda *_: None, carries=True, rid=lambda *_: "r"), run_batch, recorder)
    outer(scheduler, None)
    """
    assert recorded(tmp_path, script).returncode == 0
    (span,) = [span for span in store.read([tmp_path / "run"]).spans if span.name == v.FLUSH]
    assert span.parent_id == ""
    assert v.RID not in span.attributes


def test_locks_that_were_held_at_the_fork_are_not_waited_for(tmp_path: Path) -> None:
    """A child forked while another thread held every lock of ours records at once."""
    script = """
    recorder = next(cell.cell_contents.recorder for cell in Scheduler.flush_cache.__closure__ if hasattr(cell.cell_contents, "recorder"))
    scheduler.flush_cache()
    recorder.queue._lock.acquire(), recorder.guard._lock.acquire()
    child = os.fork()
    if child == 0:
        recorder.queue.sure = 0
        scheduler.flush_cache()
        recorder.fault("evict.flush", ValueError("v"))
        sys.exit()
    recorder.queue._lock.release(), recorder.guard._lock.release()
    assert os.waitpid(child, 0)[1] == 0
    """
    done = recorded(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert list(flushes(store.read([tmp_path / "run"])).values()) == [1, 1]


def test_commands_start_as_without_us(tmp_path: Path) -> None:
    """Subprocesses, with something to do between fork and exec as well, run, leave nothing of ours, and the parent goes on."""
    script = """
    import subprocess
    for options in ({}, {"preexec_fn": lambda: None}, {"preexec_fn": os.setsid, "close_fds": False}):
        scheduler.flush_cache()
        assert subprocess.run(["true"], **options).returncode == 0
    """
    done = recorded(tmp_path, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(flushes(store.read([tmp_path / "run"])).values()) == [3]


def test_nothing_of_ours_runs_between_fork_and_exec(tmp_path: Path) -> None:
    """In the child before exec there is no thread, no file and no lock of ours touched: only flags are set."""
    script = """
    import subprocess
    from tracers.spool import Spool
    from tracers.record import Queue
    touched = []
    for owner, name in ((Spool, "reborn"), (Spool, "start"), (Spool, "flush"), (Queue, "renew"), (Queue, "put")):
        setattr(owner, name, lambda *_, name=name, **__: os.write(2, name.encode()))
    def look():
        os.write(1, str(threading.active_count()).encode())
    assert subprocess.run(["true"], preexec_fn=look).returncode == 0
    os._exit(0)
    """
    done = recorded(tmp_path, script)
    assert (done.stdout, done.stderr.replace("flush", "")) == ("1", "")


def test_multiprocessing_of_every_kind(tmp_path: Path) -> None:
    """Workers that are forked, spawned, or come from a fork server run to their end; forked ones record for themselves."""
    script = """
    import multiprocessing
    def work():
        scheduler.flush_cache()
    for kind in ("fork", "forkserver", "spawn"):
        context = multiprocessing.get_context(kind)
        process = context.Process(target=work if kind == "fork" else print, args=() if kind == "fork" else (1,))
        process.start()
        process.join()
        assert process.exitcode == 0, kind
    scheduler.flush_cache()
    """
    done = recorded(tmp_path, script)
    assert done.returncode == 0, done.stderr
    found = store.read([tmp_path / "run"])
    assert list(flushes(found).values()) == [1, 1]
    assert found.missing == 0


def test_a_child_is_no_scheduler_because_its_parent_is_one(tmp_path: Path) -> None:
    """What a scheduler forks is not listed as an engine, and does not carry its faults."""
    script = """
    from tracers.read import process
    spool = process._bound[0]
    spool.ledger.scheduler = True
    spool.ranks = {"tp": 1, "pp": 0}
    spool.recorder.guard.fault("evict.flush", ValueError("v"))
    scheduler.flush_cache()
    child = os.fork()
    scheduler.flush_cache()
    if child: os.waitpid(child, 0)
    """
    assert recorded(tmp_path, script).returncode == 0
    ledgers = sorted(store.read([tmp_path / "run"]).ledgers.values(), key=lambda ledger: ledger.scheduler)
    assert [(ledger.scheduler, len(ledger.faults)) for ledger in ledgers] == [(False, 0), (True, 1)]
