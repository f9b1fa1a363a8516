"""The session with a child process, as far as no client library and no store is needed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hicachectl.mooncake import client
from hicachectl.mooncake.client import ClientSettings, Session, StoreDiedError, StoreRefusedError, StoreTimeoutError

SETTINGS = ClientSettings("127.0.0.1:1")
LIBRARY = '''
import os, sys, time

class MooncakeDistributedStore:
    def setup(self, *arguments):
        """setup(local_hostname, tenant_id)"""
        print("on stdout"); sys.stderr.write("E1129 12:00:00.000000  1 x.cpp:1] \\x1b[31mtrouble\\n")
        if BEHAVIOUR == "abort":
            os.abort()
        if BEHAVIOUR == "hang":
            time.sleep(600)
        return -7 if BEHAVIOUR == "refuse" else 0

    def batch_is_exist(self, keys):
        return [len(key) % 2 for key in keys]

    def put(self, key, value):
        open(os.environ["PUTS"], "a").write(f"put {key}\\n")
        time.sleep(float(os.environ.get("SLOW_PUT", "0")))
        return 0

    def register_buffer(self, start, size):
        return 0

    def batch_remove(self, keys, force):
        open(os.environ["PUTS"], "a").write(f"removed {' '.join(keys)} {force}\\n")
        return [0] * len(keys)

    def close(self):
        return 0
'''


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Puts a stand-in for the client library before the child's Python, with the behaviour asked for; returns the log of its puts."""

    def install(behaviour: str = "good") -> Path:
        (tmp_path / "mooncake").mkdir(exist_ok=True)
        (tmp_path / "mooncake" / "__init__.py").write_text("")
        (tmp_path / "mooncake" / "store.py").write_text(f"BEHAVIOUR = {behaviour!r}\n{LIBRARY}")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setenv("PUTS", str(tmp_path / "puts"))
        return tmp_path / "puts"

    return install


def wait_for(condition, seconds: float = 10.0) -> bool:
    """Whether CONDITION holds within SECONDS."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_without_the_library_the_sentence_says_what_to_install(monkeypatch, tmp_path):
    """A Python without the client library is told which wheel to install."""
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake" / "__init__.py").write_text("raise ImportError('nothing here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Session.open(SETTINGS) as session, pytest.raises(StoreRefusedError, match="install mooncake-transfer-engine"):
        session.about()


def test_a_missing_shared_library_names_the_package(monkeypatch, tmp_path):
    """A shared object that the loader does not find is told with the package that brings it."""
    (tmp_path / "mooncake").mkdir()
    missing = "libibverbs.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "mooncake" / "__init__.py").write_text(f"raise ImportError({missing!r})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Session.open(SETTINGS) as session, pytest.raises(StoreRefusedError, match="libibverbs1"):
        session.about()


def test_a_python_that_does_not_exist_is_unreachable():
    """An interpreter that cannot be started is told by its path."""
    with (
        pytest.raises(client.UnreachableError, match="/no/such/python"),
        Session.open(SETTINGS, python="/no/such/python"),
    ):
        pass


def test_no_call_reaches_the_store_before_setup(library):
    """Before setup returned 0, a call is refused in the child, and the library never sees it."""
    puts = library()
    with Session.open(SETTINGS) as session:
        session.about()
        with pytest.raises(StoreRefusedError, match="before setup"):
            session.put("k", 10)
        assert not puts.exists()


def test_no_call_reaches_the_store_after_a_refused_setup(library):
    """A setup that returned a code leaves the session without a store."""
    library("refuse")
    with Session.open(SETTINGS) as session:
        assert session.setup().codes == (-7,)
        with pytest.raises(StoreRefusedError):
            session.batch_is_exist(["k"])


def test_what_the_library_prints_stays_away_from_the_user(library, capfd):
    """Neither the library's stdout nor its log reaches the terminal; its errors can be asked for, and are harmless."""
    library()
    with Session.open(SETTINGS) as session:
        assert session.setup().codes == (0,)
        assert session.trouble() == ["E1129 12:00:00.000000  1 x.cpp:1] \\x1b[31mtrouble"]
        assert "on stdout" in session.log()
    assert capfd.readouterr() == ("", "")


def test_an_abort_of_the_library_is_an_answer(library):
    """An abort ends the child alone, and is told with its signal and the call."""
    library("abort")
    with Session.open(SETTINGS) as session, pytest.raises(StoreDiedError, match="SIGABRT in setup"):
        session.setup()


def test_a_call_that_hangs_ends_with_the_time_out(library):
    """A call without an answer ends within its time-out, and its process is gone."""
    library("hang")
    began = time.monotonic()
    with Session.open(SETTINGS, timeout=0.5) as session:
        with pytest.raises(StoreTimeoutError, match=r"setup got no answer within 0\.5 s"):
            session.setup()
        assert session.dead
        assert session._process.returncode is not None
        with pytest.raises(StoreDiedError):
            session.put("k", 1)
    assert time.monotonic() - began < 10


def test_a_put_that_hangs_is_finished_and_removed_without_a_parent(library, monkeypatch):
    """A put that outlives its time-out is not killed half-way: its process removes the object when it returns, and ends."""
    puts = library()
    monkeypatch.setenv("SLOW_PUT", "4")
    with Session.open(SETTINGS, timeout=0.5) as session:
        session.setup()
        session.buffers(1 << 16)
        with pytest.raises(StoreTimeoutError):
            session.put("mine", 16)
        assert session.unfinished == session._process.pid
    assert wait_for(lambda: "removed mine True" in puts.read_text())
    assert wait_for(lambda: session._process.poll() is not None)


def test_a_parent_that_dies_leaves_nothing(library):
    """When the parent is killed, the child removes what was put through it, and ends."""
    puts = library()
    script = (
        "import os\n"
        "from hicachectl.mooncake.client import ClientSettings, Session\n"
        "with Session.open(ClientSettings('127.0.0.1:1')) as session:\n"
        "    session.setup(); session.buffers(65536); session.put('mine', 16)\n"
        "    print(session._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    root = str(Path(client.__file__).parents[2])
    paths = os.pathsep.join([os.environ["PYTHONPATH"], root])
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, check=False
    )
    child = int(done.stdout)
    assert wait_for(lambda: "removed mine True" in puts.read_text())
    assert wait_for(
        lambda: not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes()
    )


def test_many_keys_are_asked_in_batches(library, monkeypatch):
    """A long list of keys is asked in calls of bounded size, and answered in its order."""
    library()
    monkeypatch.setattr(client, "EXIST_BATCH", 100)
    keys = ["x" * (index % 7) for index in range(1234)]
    with client.connected(SETTINGS) as session:
        assert session.batch_is_exist(keys) == [len(key) % 2 for key in keys]


def test_connected_tells_a_refused_setup(library):
    """Where setup returns a code, the sentence has the address, the code, and where its page is."""
    library("refuse")
    with (
        pytest.raises(client.UnreachableError, match=r"127\.0\.0\.1:1 .* setup returned -7; .*hicachectl code"),
        client.connected(SETTINGS),
    ):
        pass


def test_the_tenant_is_passed_only_where_setup_knows_it(library):
    """A tenant is an argument of setup where its signature has one."""
    library()
    settings = ClientSettings("127.0.0.1:1", tenant_id="t")
    with Session.open(settings) as session, pytest.raises(StoreRefusedError, match="tenant_id"):
        session.setup()  # the stand-in's text names it and its signature refuses it: it was passed


def test_the_folder_of_the_child_lends_it_no_modules(library, monkeypatch, tmp_path):
    """A library that imports a module called like one of ours gets its own."""
    library()
    (tmp_path / "config.py").write_text("MARK = 1")
    (tmp_path / "mooncake" / "__init__.py").write_text("import config; assert config.MARK == 1")
    with Session.open(SETTINGS) as session:
        assert session.setup().codes == (0,)


TRANSPORT_LINES = [
    ("I1129 1 tcp_transport.cpp:553] TcpTransport: listen on port 15459\n", "tcp"),
    (
        "I1129 1 rdma_context.cpp:125] RDMA device: mlx5_0, LID: 0, GID: ...\nI1129 1 tcp_transport.cpp:1] TcpTransport: listen on port 1\n",
        "rdma",
    ),
    ("nothing to see\n", ""),
]


@pytest.mark.parametrize(("text", "transport"), TRANSPORT_LINES)
def test_the_transport_is_read_from_the_log(text, transport):
    """What the client installed is told by its own log, not by what was asked for."""
    assert next((row.transport for row in client.TRANSPORTS if row.pattern.search(text)), "") == transport
