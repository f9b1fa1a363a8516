"""The local store: the real `mooncake_master` on free loopback ports, and a client that owns a segment."""

import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.lab import libraries
from hicachectl.lab.keeping import SCRIPTS, Keeper

SEGMENT = 256 * 1024 * 1024
"""Bytes of the segment, where nothing else is asked for."""
SMALLEST_SEGMENT = 16 * 1024 * 1024
"""What the client refuses to go below (Mooncake's `utils.cpp`: "Total size must be at least 16777216")."""
READY_S = 30.0
"""The master serves after about 0.1 s; a loaded machine gets longer."""
PORT_TRIES = 5
_PORT_TAKEN = re.compile(r"address already in use|Failed to start master admin server|Address in use", re.IGNORECASE)


@dataclass
class Store:
    """A running store; `stop` ends its processes."""

    master: str
    """`127.0.0.1:PORT` of the RPC side, what clients are given."""
    http: str
    """Base URL of the HTTP side: `/health`, `/metrics`, `/get_all_keys`."""
    master_pid: int
    segment_owner_pid: int | None
    segment: int
    keeper: Keeper
    _arguments: list[str]

    def environment(self) -> dict[str, str]:
        """What an engine needs to use this store.

        Where the store has a segment of its own, engines lend none: then all objects lie in that one segment, whatever engine comes or goes,
        and a store of N bytes is full at N bytes. Where it has none, each engine lends the default size.
        """
        return {
            "MOONCAKE_MASTER": self.master,
            "MOONCAKE_MASTER_METRICS_PORT": self.http.rsplit(":", 1)[1],
            "MOONCAKE_PROTOCOL": "tcp",
            "MOONCAKE_DEVICE": "",
            "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": str(0 if self.segment else SEGMENT),
            "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1",
        }

    def restart_master(self) -> None:
        """Kill the master and start another on the same ports; it knows no key, and the segment is mounted again by its owner within seconds."""
        os.kill(self.master_pid, signal.SIGKILL)
        self.keeper.exit_code(self.master_pid, READY_S)
        self.master_pid = _start_master(self.keeper, self._arguments)
        _wait_until_serving(self.keeper, self.master_pid, self.http)

    def stop(self) -> None:
        """End all processes of the store; a second call does nothing."""
        self.keeper.close()


@contextmanager
def running(
    segment: int = SEGMENT,
    lease_ttl_ms: int | None = None,
    client_ttl_s: int | None = None,
    extra_master_args: Sequence[str] = (),
) -> Iterator[Store]:
    """A store that serves inside the `with`, and is gone after it or after this process, however that ends.

    SEGMENT in bytes, 0 for a store in which only engines own memory. LEASE_TTL_MS: how long an object that was read cannot be removed or
    evicted (the master's default is 5000). CLIENT_TTL_S: after how long without a heartbeat a client's memory is dropped (default 10).
    Raises UnreachableError where the store cannot be started.
    """
    with closing(Keeper()) as keeper:
        yield start(keeper, segment, lease_ttl_ms, client_ttl_s, extra_master_args)


def start(
    keeper: Keeper,
    segment: int = SEGMENT,
    lease_ttl_ms: int | None = None,
    client_ttl_s: int | None = None,
    extra_master_args: Sequence[str] = (),
) -> Store:
    """Start a store whose processes KEEPER keeps; arguments and errors as in `running`."""
    if segment < 0 or 0 < segment < SMALLEST_SEGMENT:
        raise UsageError(f"a segment cannot have {segment} bytes: give 0 for none, or at least {SMALLEST_SEGMENT}")
    options = [*extra_master_args]
    if lease_ttl_ms is not None:
        options.append(f"--default_kv_lease_ttl={lease_ttl_ms}")
    if client_ttl_s is not None:
        options.append(f"--client_ttl={client_ttl_s}")
    store = _start_on_free_ports(keeper, segment, options)
    if segment:
        store.segment_owner_pid = _start_segment_owner(store)
    return store


def master_binary() -> Path:
    """The ELF binary that the Mooncake wheel of this Python carries; `bin/mooncake_master` is a wrapper whose death the binary survives."""
    spec = importlib.util.find_spec("mooncake")  # of a top-level name: imports nothing
    for place in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(place) / "mooncake_master"
        if binary.is_file():
            return binary
    raise UnreachableError(
        f"Mooncake is not installed beside {sys.executable}: install mooncake-transfer-engine on a CUDA host, "
        "mooncake-transfer-engine-non-cuda elsewhere, into that Python"
    )


def _start_on_free_ports(keeper: Keeper, segment: int, options: list[str]) -> Store:
    """A port that was free can be taken before the master binds it, so a lost race is run again."""
    binary = str(master_binary())
    for left in reversed(range(PORT_TRIES)):
        rpc, admin = _free_ports()
        arguments = [
            binary,
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            f"--metrics_port={admin}",
            "--enable_metric_reporting=false",  # the periodic log line only; the HTTP side answers all the same
            *options,
        ]
        pid = _start_master(keeper, arguments)
        store = Store(f"127.0.0.1:{rpc}", f"http://127.0.0.1:{admin}", pid, None, segment, keeper, arguments)
        try:
            _wait_until_serving(keeper, pid, store.http)
        except UnreachableError:
            if left == 0 or not _PORT_TAKEN.search(_last_lines(_master_log(keeper))):
                raise
        else:
            return store
    raise AssertionError


def _start_master(keeper: Keeper, arguments: list[str]) -> int:
    log = _master_log(keeper)
    log.unlink(missing_ok=True)
    try:
        return keeper.start(arguments, dict(os.environ), log=log, service=True)
    except OSError as error:
        raise UnreachableError(f"{arguments[0]} cannot be started: {error}") from error


def _wait_until_serving(keeper: Keeper, pid: int, url: str) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if (code := keeper.exit_code(pid, 0.03)) is not None:
            raise UnreachableError(_why_it_ended("mooncake_master", code, _master_log(keeper)))
        if _health(url):
            return
    raise UnreachableError(
        f"mooncake_master runs but does not serve at {url}/health after {READY_S:.0f} s; it said: {_last_lines(_master_log(keeper))}"
    )


def _start_segment_owner(store: Store) -> int:
    log = store.keeper.scratch / "segment_owner.log"
    argv = [sys.executable, str(SCRIPTS / "segment_owner.py"), store.master, str(store.segment)]
    pid = store.keeper.start(argv, dict(os.environ), log=log, service=True)
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if (code := store.keeper.exit_code(pid, 0.03)) is not None:
            raise UnreachableError(_why_it_ended("the client that owns the store's segment", code, log))
        if "serving" in log.read_text(errors="replace").splitlines():
            return pid
    raise UnreachableError(
        f"the client that owns the store's segment is not ready after {READY_S:.0f} s; it said: {_last_lines(log)}"
    )


def _why_it_ended(what: str, code: int, log: Path) -> str:
    said = _last_lines(log)
    if library := libraries.missing_in(said):
        return f"{what} cannot start because {library} is missing: {libraries.advice(library)}"
    end = f"exit code {code}" if code >= 0 else f"signal {-code}"
    return f"{what} ended at once with {end}; its last lines: {said}"


def _master_log(keeper: Keeper) -> Path:
    return keeper.scratch / "mooncake_master.log"


def _last_lines(log: Path, count: int = 4) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " | ".join(line.strip()[-300:] for line in lines[-count:]) or "nothing"


def _free_ports() -> tuple[int, int]:
    """Two ports that nobody has: one on loopback, one on every address, because the release's HTTP side binds all of them."""
    try:
        with socket.socket() as rpc, socket.socket() as admin:
            rpc.bind(("127.0.0.1", 0))
            admin.bind(("", 0))
            return rpc.getsockname()[1], admin.getsockname()[1]
    except OSError as error:
        raise UnreachableError(
            f"no free TCP port for the store ({error.strerror}): end what holds them, or widen net.ipv4.ip_local_port_range"
        ) from error


def _health(url: str) -> bool:
    # http.client and not a session of a library: proxies of the environment must not come between this machine and itself.
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=2)
    try:
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(answer, dict) and bool(answer.get("service_ready"))
