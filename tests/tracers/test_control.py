"""The live switch from the engine's side: who may, what is done, what is left, and that nobody can make the engine wait."""

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attachable import answer, ask, engine, eventually
from processes import python
from test_plugin import LOOK, NEVER, flushes

from hicachectl import store
from tracers import vocabulary as v

WHAT_IS_THERE = """
def what_is_there():
    import gc
    return {
        "finders": [id(each) for each in sys.meta_path],
        "method": id(vars(Scheduler)["flush_cache"]),
        "held": [id(each) for each in HELD.values()],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "marks": [name for each in (SCHEDULER, SCHEDULER.tree_cache) for name in vars(each) if name.startswith("_hicachectl")],
    }
"""
HOLDERS = """
import sglang.srt.managers.scheduler as module
class Holder:
    def __init__(self, callback): self.callback = callback
class Slotted:
    __slots__ = ("callback",)
    def __init__(self, callback): self.callback = callback
class Tree:
    def __init__(self): self.root_node = Node({}); self.root_node.children[1] = Node({}); self.cache_controller = None
class Node:
    def __init__(self, children): self.children = children
for each in (Holder, Slotted, Tree, Node): each.__module__ = module.__name__
def made(self):
    global SCHEDULER
    SCHEDULER = self
    self.flushed = 0
    self.tree_cache = Tree()
    self.holder, self.slotted = Holder(self.flush_cache), Slotted(self.flush_cache)
    self.table, self.list = {"flush": self.flush_cache}, [self.flush_cache]
Scheduler.__init__ = made
"""


def on(peer: socket.socket, run: Path) -> dict[str, object]:
    """Switch the tracers on."""
    run.mkdir(exist_ok=True)
    return ask(peer, do=v.ON, folder=str(run))


def closed(run: Path) -> list[bool]:
    """Whether each ledger says that its recording has ended."""
    return [json.loads(path.read_text())["closed"] for path in run.glob("ledger-*.json")]


@pytest.mark.parametrize("env", [{"HICACHECTL_ATTACH": "0"}, {"HICACHECTL_ATTACH": "1", "HICACHECTL_OFF": "1"}], ids=["other value", "kept out"])
def test_nothing_listens_where_it_was_not_asked_for(tmp_path: Path, env: dict[str, str]) -> None:
    """Without HICACHECTL_ATTACH=1, or with HICACHECTL_OFF=1, there is no thread, no file, and no module but the switch itself."""
    sockets = tmp_path / "sockets"
    done = python(tmp_path, "import tracers.plugin as plugin; plugin.register()\n" + LOOK, env={**env, "HICACHECTL_ATTACH_DIR": str(sockets)}, begin="")
    found = json.loads(done.stdout)
    assert {name for name in found["modules"] if name.partition(".")[0] == "tracers"} == {"tracers", "tracers.plugin", "tracers.settings"}
    assert found["threads"] == ["MainThread"]
    assert not sockets.exists()


def test_an_engine_that_waits_for_an_attach_carries_nothing_but_a_thread_that_sleeps(tmp_path: Path) -> None:
    """No row is imported, no import is watched, nothing heavy comes in; the socket is the owner's alone, in a folder of the owner's alone."""
    sockets = tmp_path / "sockets"
    script = "import tracers.plugin as plugin; plugin.register(); plugin.register()\n" + LOOK + "print(oct(os.stat(sys.argv[0] or '.').st_mode)) if False else None\nimport os; print([(oct(os.lstat(os.path.join(p, f)).st_mode), f == f'{os.getpid()}.sock') for p, _, fs in os.walk(os.environ['HICACHECTL_ATTACH_DIR']) for f in fs])"
    done = python(tmp_path, script, env={"HICACHECTL_ATTACH": "1", "HICACHECTL_ATTACH_DIR": str(sockets)}, begin="")
    seen, files = done.stdout.splitlines()
    found = json.loads(seen)
    assert not {name.partition(".")[0] for name in found["modules"]} & {*NEVER, "sglang"}
    assert not {name for name in found["modules"] if name.startswith("tracers.points")}
    assert (sorted(found["threads"]), [name for name in found["finders"] if name.startswith("tracers")]) == (["MainThread", "hicachectl-attach"], [])
    assert files == str([(oct(stat.S_IFSOCK | 0o600), True)])
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert list(sockets.iterdir()) == []
    assert done.stderr == ""


def test_an_attach_records_and_a_detach_leaves_every_object_as_it_was(tmp_path: Path) -> None:
    """Twice in a row: calls of the time between are recorded, others not; method, holders, finders and threads are those of before."""
    held = "\ndef before():\n    global HELD\n    HELD = {1: SCHEDULER.holder.callback, 2: SCHEDULER.slotted.callback, 3: SCHEDULER.table['flush'], 4: SCHEDULER.list[0]}\n"
    same = "[SCHEDULER.holder.callback is HELD[1], SCHEDULER.slotted.callback is HELD[2], SCHEDULER.table['flush'] is HELD[3], SCHEDULER.list[0] is HELD[4]]"
    with engine(tmp_path, HOLDERS + held + WHAT_IS_THERE) as process:
        was = process.does("what_is_there()")
        for number in (1, 2):
            process.flushes(3)
            run = tmp_path / f"run{number}"
            with process.peer() as peer:
                assert on(peer, run)["ok"]
                process.flushes(2)
                process.does("[each() for each in (scheduler.holder.callback, scheduler.slotted.callback, scheduler.table['flush'], scheduler.list[0])]")
                process.does("setattr(scheduler.tree_cache.root_node.children[1], '_hicachectl_carry', 1)")
                process.does("setattr(scheduler, 'taken', scheduler.flush_cache)")
                assert ask(peer, do=v.OFF) == {"ok": True, "was": True}
            process.flushes(5)
            assert flushes(run) == 6
            assert process.does("what_is_there()") == was
            assert process.does(same) == [True] * 4
            assert process.does("vars(scheduler.tree_cache.root_node.children[1]).get('_hicachectl_carry')") is None
            assert process.does("scheduler.taken.__func__ is vars(Scheduler)['flush_cache']")
            ledgers = store.read([run]).ledgers.values()
            assert [(each.closed, each.attached_ms is not None, each.faults) for each in ledgers] == [(True, True, [])]
            assert store.read([run]).incomplete == []


BLIND = """
import functools
def made(self):
    self.flushed = 0
    self.pair = (self.flush_cache,)
    self.partial = functools.partial(self.flush_cache)
    threading.Thread(target=self.backup, daemon=True).start()
def backup(self): time.sleep(3600)
Scheduler.__init__, Scheduler.backup = made, backup
from tracers import points
from tracers.point import Point, Target
"""


def test_what_cannot_be_bound_anew_is_told_as_blind_with_who_holds_it(tmp_path: Path) -> None:
    """A method in a tuple and one in a partial are out of reach: the point is blind, and the ledger names the holder."""
    with engine(tmp_path, BLIND) as process, process.peer() as peer:
        told = on(peer, tmp_path / "run")
        assert told["blind"] == ["evict.flush"]
        ask(peer, do=v.OFF)
        (ledger,) = store.read([tmp_path / "run"]).ledgers.values()
        (point,) = [each for each in ledger.points if each.state == "blind"]
        assert point.detail == "Scheduler holds it since before the attach"
        assert ledger.ids("blind") == ["evict.flush"]


def test_a_thread_that_runs_a_target_since_before_is_told(tmp_path: Path) -> None:
    """The end of such a thread would not be seen: its point is blind."""
    script = "\ndef before(): threading.Thread(target=SCHEDULER.flush_cache, name='old', daemon=True).start()\n"
    slow = "\nSLOW = Scheduler.flush_cache\ndef flush_cache(self): time.sleep(3600)\nScheduler.flush_cache = flush_cache\n"
    with engine(tmp_path, HOLDERS + slow + script) as process, process.peer() as peer:
        assert on(peer, tmp_path / "run")["blind"] == ["evict.flush"]


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_the_recording_ends_with_the_connection(tmp_path: Path, how: str) -> None:
    """Whoever attached may be killed: the tracers are off as soon as the connection is gone, and the recording is closed."""
    with engine(tmp_path, HOLDERS) as process:
        was = process.does("id(vars(Scheduler)['flush_cache'])")
        peer = process.peer()
        on(peer, tmp_path / "run")
        process.flushes(1)
        assert process.does("id(vars(Scheduler)['flush_cache'])") != was
        peer.shutdown(socket.SHUT_RDWR) if how == "shutdown" else peer.close()
        assert eventually(lambda: process.does("id(vars(Scheduler)['flush_cache'])") == was)
        assert eventually(lambda: closed(tmp_path / "run") == [True])
        assert flushes(tmp_path / "run") == 1


def test_a_second_attach_is_refused_in_one_sentence_and_a_detach_from_elsewhere_ends_the_first(tmp_path: Path) -> None:
    """One recording at a time; who may attach may also end what another began, and that one is told."""
    with engine(tmp_path) as process, process.peer() as first, process.peer() as second:
        assert on(first, tmp_path / "run")["ok"]
        refused = on(second, tmp_path / "other")
        assert refused["ok"] is False
        assert f"by process {os.getpid()}, in {tmp_path / 'run'}" in str(refused["why"])
        assert ask(second, do=v.LOOK)["on"] is True
        assert ask(second, do=v.OFF) == {"ok": True, "was": True}
        assert answer(first) == {"ended": f"process {os.getpid()} asked for it"}
        assert answer(first) == {}
        assert ask(second, do=v.LOOK)["on"] is False
        assert list((tmp_path / "other").iterdir()) == []


def test_a_recording_of_limited_time_ends_by_itself(tmp_path: Path) -> None:
    """Though who attached hangs, the engine keeps to the time that was named, with some seconds of grace."""
    with engine(tmp_path) as process, process.peer() as peer:
        (tmp_path / "run").mkdir()
        assert ask(peer, do=v.ON, folder=str(tmp_path / "run"), seconds=0.1)["ok"]
        assert answer(peer) == {"ended": "its time is over"}


@pytest.mark.parametrize("folder", ["relative", "/no/such/folder", "", "/proc"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, folder: str) -> None:
    """Nothing is switched on for a recording that could not be written; root may write anywhere but where there is nothing."""
    with engine(tmp_path) as process, process.peer() as peer:
        told = ask(peer, do=v.ON, folder=folder)
        if folder != "/proc":
            assert told["ok"] is False
            assert "cannot write into" in told["why"]
            assert ask(peer, do=v.LOOK)["on"] is False
        assert process.does("1 + 1") == 2


def test_an_engine_that_is_recorded_from_its_start_refuses(tmp_path: Path) -> None:
    """With HICACHECTL_TRACE beside it there is nothing to attach to, and the refusal says where the recording is."""
    with engine(tmp_path, env={"HICACHECTL_TRACE": str(tmp_path / "run")}) as process, process.peer() as peer:
        assert f"is recorded from its start, in {tmp_path / 'run'}" in str(on(peer, tmp_path / "other")["why"])


NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX); sock.settimeout(10)
try:
    sock.connect(sys.argv[1])
    sock.sendall(b'{"do":"look"}\\n')
    print(repr(sock.recv(100)))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("opened", [False, True], ids=["as made", "opened up by the owner"])
def test_another_user_gets_nowhere(opened: bool) -> None:
    """Another user does not reach the socket; where its owner opened folder and socket for all, the kernel's word on the peer counts."""
    import tempfile  # noqa: PLC0415 - a folder that another user can look into

    with tempfile.TemporaryDirectory(dir="/tmp") as name, engine(Path(name)) as process:
        Path(name).chmod(0o755)
        sock = process.folder / f"{process.pid}.sock"
        if opened:
            process.folder.chmod(0o777)
            sock.chmod(0o777)
        done = subprocess.run([sys.executable, "-c", NOBODY, str(sock)], capture_output=True, text=True, check=True)
        assert done.stdout in ({"b''\n", "ConnectionResetError\n", "BrokenPipeError\n"} if opened else {"PermissionError\n"})
        with process.peer() as peer:
            assert ask(peer, do=v.LOOK)["pid"] == process.pid


GARBAGE = [b"\x00\xff\n", b"{}\n", b"[]\n", b"null\n", b'{"do":{}}\n', b'{"do":"on"}\n', b'{"do":"on","folder":7,"environment":[],"seconds":"x"}\n', b"[" * 8000 + b"\n", b'"' + b"x" * 8000 + b"\n"]


def test_garbage_is_answered_or_hung_up_on(tmp_path: Path) -> None:
    """Whatever a peer says, the engine goes on, nothing is switched on, and the next one is heard."""
    with engine(tmp_path) as process:
        for garbage in GARBAGE:
            with process.peer() as peer:
                peer.sendall(garbage)
                assert answer(peer).get("ok", False) is False
        process.flushes(10)
        with process.peer() as peer:
            told = ask(peer, do=v.LOOK)
            assert (told["pid"], told["on"]) == (process.pid, False)


def test_a_line_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    """After a few kilobytes the engine hangs up."""
    with engine(tmp_path) as process, process.peer() as peer:
        with pytest.raises(OSError):  # noqa: PT012 - it may be any of the sends
            for _ in range(10_000):
                peer.sendall(b"x" * 4096)
        with process.peer() as other:
            assert ask(other, do=v.LOOK)["ok"]


def test_a_peer_that_says_nothing_is_hung_up_on(tmp_path: Path) -> None:
    """After some seconds without a line the connection is closed."""
    with engine(tmp_path) as process, process.peer() as peer:
        began = time.monotonic()
        assert answer(peer) == {}
        assert 3 < time.monotonic() - began < 15


def test_many_connections_neither_block_the_engine_nor_end_a_recording(tmp_path: Path) -> None:
    """Five hundred peers, most of which are turned away: the scheduler works as before, and so does the recording under way."""
    with engine(tmp_path) as process, process.peer() as peer:
        on(peer, tmp_path / "run")
        crowd = []
        for _ in range(500):
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            crowd.append(sock)
            try:
                sock.connect(str(process.folder / f"{process.pid}.sock"))
            except BlockingIOError:
                continue
        assert process.flushes(1000) < 5
        assert int(process.does("len(os.listdir('/proc/self/fd'))")) < 60
        for sock in crowd:
            sock.close()
        assert ask(peer, do=v.OFF)["ok"]
        assert flushes(tmp_path / "run") == 1000


@pytest.mark.parametrize("wrong", ["open", "link", "file", "other"])
def test_a_folder_that_is_not_the_user_s_alone_is_not_used(tmp_path: Path, wrong: str) -> None:
    """A folder that others may enter, a link, a file, or another user's folder: nobody listens, one line says so, the engine runs."""
    sockets = tmp_path / "sockets"
    if wrong == "file":
        sockets.write_text("")
    elif wrong == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        sockets.symlink_to(tmp_path / "real")
    else:
        sockets.mkdir(mode=0o700)
        if wrong == "open":
            sockets.chmod(0o755)
        elif os.geteuid() == 0:
            os.chown(sockets, 65534, 65534)
        else:
            pytest.skip("only root can make another user's folder")
    done = python(tmp_path, "print(scheduler.flush_cache())", env={"HICACHECTL_ATTACH": "1", "HICACHECTL_ATTACH_DIR": str(sockets)})
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert done.stderr.count("\n") == 1
    assert "nobody can attach to this process" in done.stderr


def test_a_path_longer_than_a_socket_s_name_may_be_is_no_obstacle(tmp_path: Path) -> None:
    """The socket is made and found by way of its folder."""
    deep = tmp_path / ("d" * 120)
    with engine(tmp_path, env={"HICACHECTL_ATTACH_DIR": str(deep)}) as process:
        assert [path.name for path in deep.iterdir()] == [f"{process.pid}.sock"]


FORKS = """
import multiprocessing
def child(pipe):
    pipe.send(os.getpid())
    pipe.recv()
def before():
    global WORKER, PIPE
    PIPE, theirs = multiprocessing.Pipe()
    WORKER = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
    WORKER.start()
    global CHILD
    CHILD = PIPE.recv()
def plain():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps([os.listdir(os.environ["HICACHECTL_ATTACH_DIR"]), threading.active_count()]).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(os.read(read, 9999))
"""


def test_a_worker_that_multiprocessing_forks_listens_under_its_own_id(tmp_path: Path) -> None:
    """Parent and worker each have a socket that answers for them; the worker takes its own away when it ends, and no other."""
    with engine(tmp_path, FORKS) as process:
        child = process.does("CHILD")
        assert eventually((process.folder / f"{child}.sock").exists)
        for pid in (process.pid, child):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(20)
                peer.connect(str(process.folder / f"{pid}.sock"))
                told = ask(peer, do=v.LOOK)
                assert (told["pid"], told["scheduler"]) == (pid, pid == process.pid)
        process.does("PIPE.send(1) or WORKER.join()")
        assert [path.name for path in process.folder.iterdir()] == [f"{process.pid}.sock"]


def test_a_plain_fork_gets_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    """A child of os.fork, also during a recording, has no thread and no socket of ours, and the parent's goes on."""
    with engine(tmp_path, FORKS + "\ndef before(): pass\n") as process, process.peer() as peer:
        on(peer, tmp_path / "run")
        files, threads = process.does("plain()")
        assert (files, threads) == ([f"{process.pid}.sock"], 1)
        process.flushes(2)
        assert ask(peer, do=v.OFF) == {"ok": True, "was": True}
        assert flushes(tmp_path / "run") == 2
        assert len(store.read([tmp_path / "run"]).ledgers) == 1


def test_a_worker_forked_during_a_recording_has_no_wrapper_left(tmp_path: Path) -> None:
    """The recording is the parent's: in the worker the classes are as they were, and it can be attached to by its own id."""
    script = FORKS.replace("pipe.send(os.getpid())", "pipe.send([os.getpid(), hasattr(Scheduler.flush_cache, '__wrapped__')])")
    script = script.replace("def before():", "def later():").replace("def plain", "def unused") + "\n    \n"
    with engine(tmp_path, script) as process, process.peer() as peer:
        on(peer, tmp_path / "run")
        assert process.does("hasattr(Scheduler.flush_cache, '__wrapped__')") is True
        process.does("later()")
        child, wrapped = process.does("CHILD")
        assert wrapped is False
        assert eventually((process.folder / f"{child}.sock").exists)
        assert ask(peer, do=v.OFF)["ok"]
        process.does("PIPE.send(None) or WORKER.join(20)")


def test_a_process_that_ends_takes_its_socket_with_it_and_closes_the_recording(tmp_path: Path) -> None:
    """An engine that ends in order while it is recorded leaves a closed recording and no socket."""
    with engine(tmp_path) as process, process.peer() as peer:
        on(peer, tmp_path / "run")
        process.flushes(3)
        process._process.stdin.close()  # type: ignore[union-attr]
        assert process._process.wait(20) == 0
        assert list(process.folder.iterdir()) == []
    found = store.read([tmp_path / "run"])
    assert ([each.closed for each in found.ledgers.values()], flushes(tmp_path / "run")) == ([True], 3)


def test_the_environment_of_the_engine_is_read_as_at_a_start(tmp_path: Path) -> None:
    """Bounds that the engine's environment names hold for an attach too."""
    with engine(tmp_path, env={"HICACHECTL_QUEUE": "1"}) as process, process.peer() as peer:
        on(peer, tmp_path / "run")
        process.flushes(500)
        ask(peer, do=v.OFF)
    found = store.read([tmp_path / "run"])
    assert found.dropped > 0
    assert flushes(tmp_path / "run") + found.dropped == 500


