"""The lab for real: the store and what ends it, commands beside it, and one engine."""

import contextlib
import http.client
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import engines
import invoke
import pytest
from installed import needs

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.lab import store as lab_store
from hicachectl.lab.keeping import Keeper
from hicachectl.lab.store import Store

pytestmark = pytest.mark.real

HOLD = """
import sys, time
from hicachectl.lab import store
with store.running() as s:
    print(s.master_pid, s.segment_owner_pid, s.keeper.scratch, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _mooncake() -> None:
    needs("mooncake")


def get(store: Store, path: str) -> str:
    """What the master's HTTP side answers to PATH."""
    connection = http.client.HTTPConnection(store.http.removeprefix("http://"), timeout=5)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def lives(pid: int) -> bool:
    """Whether PID runs; a process that ended and was not waited for does not."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def soon(holds: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether HOLDS becomes true."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.fixture
def holder() -> Iterator[tuple[subprocess.Popen[bytes], list[int], Path]]:
    """A process that has a store: the process, the pids of the store, its scratch folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], env=invoke.environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    master, owner, scratch = process.stdout.readline().decode().split()
    yield process, [int(master), int(owner)], Path(scratch)
    process.kill()
    process.wait()


def test_a_store_serves_inside_the_with_and_is_gone_after_it() -> None:
    """Master and segment answer at once; afterwards neither process nor folder is there."""
    with lab_store.running() as store:
        assert json.loads(get(store, "/health"))["service_ready"] is True
        assert "256.00 MB" in get(store, "/metrics/summary")
        assert store.segment_owner_pid is not None
        pids, scratch = [store.master_pid, store.segment_owner_pid], store.keeper.scratch
        assert all(lives(pid) for pid in pids)
        assert all(os.getpgid(pid) == pid for pid in pids)
    assert not any(lives(pid) for pid in pids)
    assert not scratch.exists()


def test_a_store_without_a_segment_leaves_memory_to_the_engines() -> None:
    """With 0 no client is mounted, and engines are told to lend memory; with a segment they are told to lend none."""
    with lab_store.running(segment=0) as store:
        assert store.segment_owner_pid is None
        assert get(store, "/get_all_segments").strip() == ""
        assert store.environment()["MOONCAKE_GLOBAL_SEGMENT_SIZE"] == str(lab_store.SEGMENT)
    with lab_store.running(segment=1 << 24) as store:
        assert store.environment()["MOONCAKE_GLOBAL_SEGMENT_SIZE"] == "0"


def test_the_master_listens_on_loopback_but_for_its_admin_side() -> None:
    """What a release opens wider is known: the admin port. A change here belongs into docs/lab.md."""
    with lab_store.running(segment=0) as store:
        rpc, admin = (int(text.rsplit(":", 1)[1]) for text in (store.master, store.http))
        assert listeners(store.master_pid) == {("127.0.0.1", rpc), ("0.0.0.0", admin)}


def listeners(pid: int) -> set[tuple[str, int]]:
    """IPv4 addresses and ports that PID listens on (proc(5): state 0A)."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            sockets.add(str(link.readlink()))
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            address, port = fields[1].split(":")
            found.add((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    return found


def test_options_reach_the_master_and_a_bad_one_is_reported_with_its_words() -> None:
    """A lease of 0.2 s is over after 0.3 s; an unknown flag gives the master's own last line."""
    with lab_store.running(segment=1 << 24, lease_ttl_ms=200, client_ttl_s=3) as store:
        cmdline = Path(f"/proc/{store.master_pid}/cmdline").read_text().split("\0")
        assert "--default_kv_lease_ttl=200" in cmdline
        assert "--client_ttl=3" in cmdline
    with pytest.raises(UnreachableError, match="unknown command line flag 'no_such_flag'"):
        lab_store.running(extra_master_args=["--no_such_flag=1"]).__enter__()
    for size in (-1, 1, (1 << 24) - 1):
        with pytest.raises(UsageError, match=f"cannot have {size} bytes"):
            lab_store.running(segment=size).__enter__()


def test_a_restarted_master_serves_on_the_same_ports() -> None:
    """Another process, the same address, no keys; the owner mounts its segment again."""
    with lab_store.running(segment=1 << 24) as store:
        before = store.master_pid
        store.restart_master()
        assert store.master_pid != before
        assert not lives(before)
        assert json.loads(get(store, "/health"))["service_ready"] is True
        assert soon(lambda: "16.00 MB" in get(store, "/metrics/summary"), 20)


def test_twelve_stores_find_ports_of_their_own() -> None:
    """Stores that start one after the other do not meet."""
    with contextlib.closing(Keeper()) as keeper:
        stores = [lab_store.start(keeper, segment=0) for _ in range(12)]
        assert len({store.master for store in stores} | {store.http for store in stores}) == 24


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_store_does_not_outlive_its_owner(
    holder: tuple[subprocess.Popen[bytes], list[int], Path], number: int
) -> None:
    """However the owner ends, master, client and folder are gone within moments."""
    process, pids, scratch = holder
    assert all(lives(pid) for pid in pids)
    process.send_signal(number)
    process.wait(10)
    assert soon(lambda: not any(lives(pid) for pid in pids) and not scratch.exists())


def test_a_store_does_not_outlive_its_keeper(holder: tuple[subprocess.Popen[bytes], list[int], Path]) -> None:
    """Even a killed keeper takes the store with it."""
    _, pids, scratch = holder
    keeper = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert soon(lambda: not any(lives(pid) for pid in pids))
    shutil.rmtree(scratch)


def test_lab_store_prints_what_a_shell_needs_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    """Lines that a shell can run on stdout, talk on stderr, 130 at the end, nothing left."""
    lines = tmp_path / "store.env"
    with lines.open("wb") as stdout:
        process = invoke.start("lab", "store", "--segment", "16777216", stdout=stdout)
    assert process.stderr is not None
    talk = process.stderr.readline().decode()
    shown = subprocess.run(
        ["sh", "-c", f'. {lines}; cat "$HICACHECTL_LAB_MODEL/config.json"; env'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    master = re.search(r"^MOONCAKE_MASTER=(127\.0\.0\.1:\d+)$", shown, re.MULTILINE)
    assert master
    assert master[1] in talk
    assert "MOONCAKE_GLOBAL_SEGMENT_SIZE=0\n" in shown
    assert "HICACHECTL_LAB=1\n" in shown
    assert "LlamaForCausalLM" in shown
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=10)
    assert process.returncode == 130
    assert rest == b""
    assert not answers(master[1])


def test_lab_store_as_json_is_one_document() -> None:
    """The schema names the command; the environment is the same."""
    process = invoke.start("lab", "store", "--segment", "0", "-o", "json")
    assert process.stdout is not None
    document = json.loads(process.stdout.readline())
    assert document["schema"] == "hicachectl/lab-store/1"
    assert document["environment"]["MOONCAKE_MASTER"] == document["master"]
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 143


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -INT $$", 130)],
)
def test_exec_passes_the_exit_code_through(script: str, code: int) -> None:
    """COMMAND's own code, 128+n for a signal."""
    assert invoke.hicachectl("lab", "exec", "--segment", "0", "--", "sh", "-c", script).returncode == code


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "/etc/hostname", "/"])
def test_exec_says_in_one_sentence_that_a_command_cannot_be_started(command: str) -> None:
    """Exit 3, the command's name, no traceback."""
    done = invoke.hicachectl("lab", "exec", "--segment", "0", "--", command)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert command in done.stderr


def test_exec_gives_its_command_the_contracts_environment() -> None:
    """Store, model and, without a GPU, the CPU switches; settings that name another store do not reach the command."""
    mine = {
        "MOONCAKE_MASTER": "production:1",
        "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": "/etc/production.json",
        "OTHER": "kept",
    }
    done = invoke.hicachectl(
        "lab",
        "exec",
        "--",
        "sh",
        "-c",
        'cat "$HICACHECTL_LAB_MODEL/config.json" >&2; env',
        env={**mine, "CUDA_VISIBLE_DEVICES": ""},
    )
    given = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", given["MOONCAKE_MASTER"])
    expected = {
        "MOONCAKE_PROTOCOL": "tcp",
        "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
        "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1",
        "MOONCAKE_DEVICE": "",
        "SGLANG_USE_CPU_ENGINE": "1",
        "TRITON_INTERPRET": "1",
        "OTHER": "kept",
    }
    assert {name: given.get(name) for name in expected} == expected
    assert "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH" not in given
    assert "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH" in done.stderr
    assert '"LlamaForCausalLM"' in done.stderr
    assert not Path(given["HICACHECTL_LAB_MODEL"]).exists()


def test_exec_stops_what_the_command_left_behind(tmp_path: Path) -> None:
    """A process in a session of its own, deaf to SIGTERM, whose parent is gone, ends with the lab."""
    script = f"setsid sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; sleep 600; sleep 600' & while [ ! -s {tmp_path}/pid ]; do sleep 0.05; done"
    assert invoke.hicachectl("lab", "exec", "--segment", "0", "--", "sh", "-c", script).returncode == 0
    assert not lives(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_exec_ends_its_command_when_it_is_ended(tmp_path: Path, number: int, code: int) -> None:
    """A signal to the lab ends command, store and what the command started; SIGKILL as well."""
    script = f"setsid sleep 600 & echo $! $$ $MOONCAKE_MASTER > {tmp_path}/ids.part; mv {tmp_path}/ids.part {tmp_path}/ids; wait"
    process = invoke.start("lab", "exec", "--segment", "0", "--", "sh", "-c", script)
    assert soon((tmp_path / "ids").exists, 30)
    *pids, master = (tmp_path / "ids").read_text().split()
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == code
    assert soon(lambda: not any(lives(int(pid)) for pid in pids))
    assert soon(lambda: not answers(master))


def answers(address: str) -> bool:
    """Whether something listens at ADDRESS."""
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=1)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def test_exec_in_a_terminal_passes_keys_and_gives_the_terminal_back() -> None:
    """The command reads from the terminal, Ctrl-C reaches it, and the lab ends with 130."""
    pid, terminal = pty.fork()
    if pid == 0:
        script = 'read line; echo "got $line"; sleep 600'
        argv = invoke.argv("lab", "exec", "--segment", "0", "--", "sh", "-c", script)
        os.execve(argv[0], argv, invoke.environment())
    os.write(terminal, b"hello\n")
    seen = b""
    while b"got hello" not in seen:
        seen += os.read(terminal, 1024)
    time.sleep(0.2)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130


def test_mooncake_that_is_not_installed_is_named_with_its_packages(tmp_path: Path) -> None:
    """A Python that finds no Mooncake, here because another package has its name: exit 3, both wheels named."""
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake" / "__init__.py").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {invoke.MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", code, "lab", "store"],
        env=invoke.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 3
    assert "mooncake-transfer-engine on a CUDA host" in done.stderr
    assert "mooncake-transfer-engine-non-cuda" in done.stderr
    assert done.stderr.count("\n") == 1


def in_own_namespace(flag: str, before: str) -> subprocess.CompletedProcess[str]:
    """Run `lab store` after the shell lines BEFORE in a namespace of its own; skip where the kernel does not let us."""
    if subprocess.run(["unshare", flag, "sh", "-ec", before], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and namespaces")
    script = f'{before}\nexec "$@"'
    command = ["unshare", flag, "sh", "-ec", script, "sh", *invoke.argv("lab", "store")]
    return subprocess.run(command, env=invoke.environment(), capture_output=True, text=True, check=False, timeout=60)


def test_no_free_port_is_said_in_one_sentence() -> None:
    """In a network with a single port for all, the second one is missing: exit 3."""
    done = in_own_namespace("-n", "echo 40000 40000 > /proc/sys/net/ipv4/ip_local_port_range")
    assert done.returncode == 3
    assert "no free TCP port" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_system_library_is_named_with_its_package() -> None:
    """On a file system without libibverbs.so.1: exit 3, library and package named."""
    libraries = next((place for place in Path("/usr/lib").glob("*/libibverbs.so.1")), None)
    if libraries is None:
        pytest.skip("libibverbs.so.1 is not where Debian has it")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        done = in_own_namespace(
            "-m",
            f"rm -rf {folder}/up {folder}/work; mkdir {folder}/up {folder}/work; mknod {folder}/up/libibverbs.so.1 c 0 0;"
            f"mount -t overlay overlay -o lowerdir={libraries.parent},upperdir={folder}/up,workdir={folder}/work {libraries.parent}",
        )
    assert done.returncode == 3
    assert "libibverbs.so.1 is missing: apt-get install libibverbs1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_engine_writes_and_reuses_through_the_store(reused: engines.Played) -> None:
    """Cold nothing is cached; warm 592 of 597 tokens come from the device, after a flush from storage; the output stays."""
    cold, warm, stored = reused.answers()
    assert [answer["prompt_tokens"] for answer in (cold, warm, stored)] == [597] * 3
    assert [answer["cached_tokens"] for answer in (cold, warm, stored)] == [0, 592, 592]
    assert warm["details"]["device"] == 592
    assert stored["details"]["storage"] == 592
    assert cold["output"] == warm["output"] == stored["output"]


def test_each_page_is_two_objects_of_the_store(reused: engines.Played) -> None:
    """37 full pages make 74 objects, K and V."""
    found = next(step["keys"] for step in reused.steps if step["do"] == "keys")
    assert len(found) == 74
    assert {key[-4:] for key in found} == {"_0_k", "_0_v"}


def test_a_process_with_stand_ins_says_so(reused: engines.Played) -> None:
    """HICACHECTL_STAND_IN tells a recording that the device is a CPU standing in."""
    assert reused.steps[-1]["values"] == {"HICACHECTL_STAND_IN": "cpu"}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_no_scheduler_outlives_the_lab(tmp_path: Path, number: int, code: int) -> None:
    """Ctrl-C, or the death of the lab itself, while an engine serves: no process of the engine stays."""
    plan = engines.command_of(tmp_path, [engines.generate(engines.tokens(40)), engines.wait(300)])
    mark = {"MARK_OF_THIS_TEST": str(tmp_path)}
    process = invoke.start("lab", "exec", "--", *plan, env=mark, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert b'"generate"' in next(line for line in process.stdout if line.startswith(b'{"do"'))
    assert len(marked(str(tmp_path))) >= 5  # lab, master, client, script, scheduler
    process.send_signal(number)
    process.stdout.close()
    assert process.wait(60) == code
    assert soon(lambda: not marked(str(tmp_path)))


def marked(text: str) -> list[int]:
    """Living processes whose environment has TEXT."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_two_ranks_write_and_read_their_own_objects() -> None:
    """With tensor parallelism of 2 each rank has its K and V of each page, and the prefix is reused from storage."""
    prompt = engines.tokens(597)
    played = engines.play(
        [engines.generate(prompt), engines.written(148), engines.flush(), engines.generate(prompt), engines.keys()],
        engine={"tp_size": 2},
    )
    cold, stored = played.answers()
    assert stored["details"]["storage"] == 592
    assert cold["output"] == stored["output"]
    assert {key[-4:] for key in played.steps[-1]["keys"]} == {"_0_k", "_0_v", "_1_k", "_1_v"}
