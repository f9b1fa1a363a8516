"""A probe session with the store: the native client in a child process, requests over a pipe, a time-out on every call."""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from hicachectl.exits import UnreachableError, one_line
from hicachectl.lab import libraries

CALL_TIMEOUT_S = 10.0
LOAD_TIMEOUT_S = 60.0
"""For what is no store call: loading a library, touching the buffers."""
CLOSE_TIMEOUT_S = 10.0
LOCAL_BUFFER = 16 << 20
"""What SGLang gives its own client (`DEFAULT_LOCAL_BUFFER_SIZE`, mooncake_store.py); only `put` and `get` of bytes need it."""
EXIST_BATCH = 8192
FINISH_S = 2.0
WRITES = frozenset({"put", "put_blank", "put_tensor", "batch_put_from", "batch_put_from_multi_buffers", "bare"})
"""Calls of the child that put objects."""
LOG_LINES = 12

_CHILD = Path(__file__).with_name("child.py")
_TROUBLE = re.compile(r"^[EFW]\d{4} ")
_VARYING = re.compile(r"[\w-]*\d[\w-]*")
_OVERRIDES = {"MC_LOG_LEVEL": "INFO"}
_WITHHELD = ("MC_LOG_DIR", "GLOG_log_dir", "GLOG_minloglevel", "PYTHONSTARTUP")
"""Where the library would otherwise log to a file, or not say which transport it installed."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to connect; `segment_size` is what this client would lend to the pool, 0 unless the user asks for more."""

    master_server_address: str
    local_hostname: str = "localhost"
    metadata_server: str = "P2PHANDSHAKE"
    protocol: str = "tcp"
    device_name: str = ""
    segment_size: int = 0
    local_buffer: int = LOCAL_BUFFER
    tenant_id: str = ""

    @staticmethod
    def staging(object_size: int) -> int:
        """Bytes of `local_buffer` for objects of this size: `put` and `get` of bytes copy through it."""
        return max(LOCAL_BUFFER, 2 * object_size + (1 << 20))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned: a code an item, seconds a native call, and whether all bytes read are those written (None: nothing compared)."""

    codes: tuple[int, ...]
    seconds: tuple[float, ...]
    same: bool | None = None


@dataclass(frozen=True, slots=True)
class About:
    """The client library of the child's Python: its release (empty where no wheel says), methods, and whether torch is installed."""

    release: str
    methods: frozenset[str]
    torch: bool


class StoreTimeoutError(UnreachableError):
    """A call got no answer in time; the child was killed."""


class StoreDiedError(UnreachableError):
    """The native library ended the child."""


class StoreRefusedError(UnreachableError):
    """The child answered that it cannot do this: no client library, no such method, no memory."""


@dataclass(frozen=True, slots=True)
class TransportRow:
    """A line of the client's log that tells which transport it installed."""

    pattern: re.Pattern[str]
    transport: str


TRANSPORTS: tuple[TransportRow, ...] = (
    TransportRow(re.compile(r"rdma_context\.cpp:\d+\] RDMA device: "), "rdma"),
    TransportRow(re.compile(r"TcpTransport: listen on port"), "tcp"),
)
"""The first row that matches rules; the library falls back from rdma to tcp in silence, so what was asked for proves nothing."""


@dataclass(slots=True)
class Session:
    """One client of the store, alive in a child process from `open` to the end of its `with`.

    Every method but `about` and `setup` raises StoreRefusedError before `setup` returned 0. A call that gets no answer within the
    time-out ends the child and raises StoreTimeoutError; from then on the session is `dead`.
    """

    settings: ClientSettings
    timeout: float
    _process: subprocess.Popen[bytes]
    _log: IO[bytes]
    dead: bool = False
    unfinished: int | None = None
    """The process that still waits for a put of its own; it removes its objects and ends by itself."""
    _pending: bytearray = field(default_factory=bytearray)

    @classmethod
    @contextmanager
    def open(
        cls, settings: ClientSettings, timeout: float = CALL_TIMEOUT_S, python: str = sys.executable
    ) -> Iterator["Session"]:
        """Start the child with PYTHON; connects nowhere until `setup`. The child is closed, or killed, at the end of the `with`."""
        with tempfile.TemporaryFile() as log:
            session = cls(settings, timeout, _start(python, log), log)
            try:
                yield session
            finally:
                session.close()

    def about(self) -> About:
        """Load the client library; StoreRefusedError with what to install where it cannot be loaded."""
        reply = self._ask("about", LOAD_TIMEOUT_S, {})
        return About(reply["release"], frozenset(reply["methods"]), reply["torch"])

    def setup(self, timeout: float | None = None) -> Answer:
        """Connect to the store: 0, or the negative code of what failed."""
        chosen = self.settings
        arguments = [
            chosen.local_hostname,
            chosen.metadata_server,
            chosen.segment_size,
            chosen.local_buffer,
            chosen.protocol,
            chosen.device_name,
            chosen.master_server_address,
        ]
        extra = {"tenant_id": chosen.tenant_id} if chosen.tenant_id else {}
        return self.call("setup", timeout=timeout, arguments=arguments, extra=extra)

    def health(self) -> int:
        """The client's own view: 0 healthy, 1 not set up, 2 master unreachable."""
        return self.call("health").codes[0]

    def buffers(self, total: int) -> Answer:
        """Two regions of TOTAL bytes each in the child, registered with the store; the codes of both registrations."""
        return self.call("arena_of", timeout=self.timeout + LOAD_TIMEOUT_S, bytes=total)

    def put(self, key: str, size: int) -> Answer:
        """Put the first SIZE bytes of the buffers under one key."""
        return self.call("put", key=key, size=size)

    def is_exist(self, key: str) -> int:
        """Ask one key: 1 yes, 0 no, negative a failure. Takes a lease on what exists."""
        return self.call("is_exist", key=key).codes[0]

    def batch_is_exist(self, keys: Sequence[str]) -> list[int]:
        """Ask many keys, at most EXIST_BATCH a call: 1 yes, 0 no, negative a failure. Takes a lease on what exists."""
        codes: list[int] = []
        for start in range(0, len(keys), EXIST_BATCH):
            codes += self.call("batch_is_exist", keys=list(keys[start : start + EXIST_BATCH])).codes
        return codes

    def get_into(self, key: str, size: int) -> Answer:
        """Read one key into the registered target: bytes or a negative code; compared with what `put` wrote."""
        return self.call("get_into", key=key, size=size)

    def batch_put_from(self, keys: Sequence[str], size: int) -> Answer:
        """Put objects of SIZE bytes in one zero-copy call."""
        return self.call("batch_put_from", keys=list(keys), size=size)

    def batch_get_into(self, keys: Sequence[str], size: int) -> Answer:
        """Read objects of SIZE bytes in one zero-copy call: bytes or a negative code each; compared with what was put."""
        return self.call("batch_get_into", keys=list(keys), size=size)

    def remove(self, keys: Sequence[str]) -> Answer:
        """Remove keys in one call, with force: 0, or -704 where one is not there."""
        return self.call("remove", keys=list(keys))

    def call(self, name: str, *, timeout: float | None = None, **arguments: Any) -> Answer:
        """Make one call of the child by its name (`child.CALLS`); TIMEOUT is for what makes no store call, or two."""
        reply = self._ask(name, timeout or self.timeout, arguments)
        return Answer(tuple(reply["codes"]), tuple(reply["seconds"]), reply.get("same"))

    def close(self) -> Answer | None:
        """Leave the store and end the child; None where it was dead already. A second call does nothing."""
        answer = None
        if not self.dead:
            try:
                answer = self.call("close", timeout=CLOSE_TIMEOUT_S)
            except UnreachableError:
                answer = None
        self._end()
        return answer

    def log(self) -> str:
        """All that the native library wrote so far."""
        self._log.flush()
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), min(size, 4 << 20), max(0, size - (4 << 20))).decode(errors="replace")

    def trouble(self) -> list[str]:
        """The last warnings and errors of the native library's log, each kind once, harmless to a terminal."""
        kinds: dict[str, str] = {}
        for line in self.log().splitlines():
            if _TROUBLE.match(line) and not _harmless(line):
                kind = _VARYING.sub("", line.partition("] ")[2])
                kinds.pop(kind, None)
                kinds[kind] = one_line(line)
        return list(kinds.values())[-LOG_LINES:]

    def transport(self) -> str:
        """The transport that the library really installed, by its own log: `tcp`, `rdma`, or empty where it does not say."""
        text = self.log()
        return next((row.transport for row in TRANSPORTS if row.pattern.search(text)), "")

    def _ask(self, name: str, timeout: float, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self.dead:
            raise StoreDiedError(f"the store's client ended before {name}")
        request = json.dumps({"call": name, **arguments}).encode() + b"\n"
        try:
            _stdin(self._process).write(request)
            _stdin(self._process).flush()
            reply: dict[str, Any] = json.loads(self._line(name, timeout))
        except BrokenPipeError:
            raise self._died(name) from None
        except StoreTimeoutError:
            self._end(finish=name in WRITES)
            raise
        except BaseException:
            # Whoever is interrupted between a request and its answer could take that answer for the next one's.
            self._end(finish=True)
            raise
        if "error" in reply:
            raise StoreRefusedError(_why_refused(name, reply))
        return reply

    def _line(self, name: str, timeout: float) -> bytes:
        """The next line of the child, within TIMEOUT seconds."""
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as ready:
            ready.register(_stdout(self._process), selectors.EVENT_READ)
            while (at := self._pending.find(b"\n")) < 0:
                if not ready.select(max(0.0, end - time.monotonic())):
                    raise StoreTimeoutError(f"{name} got no answer within {timeout:g} s")
                piece = os.read(_stdout(self._process).fileno(), 1 << 20)
                if not piece:
                    raise self._died(name)
                self._pending += piece
        line = bytes(self._pending[:at])
        del self._pending[: at + 1]
        return line

    def _died(self, name: str) -> StoreDiedError:
        self._end()
        code = self._process.returncode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = self.trouble()
        return StoreDiedError(
            f"the native client ended with {how} in {name}" + (f"; its last words: {said[-1]}" if said else "")
        )

    def _end(self, *, finish: bool = False) -> None:
        """End the session. A child that hangs is killed, for it answers no other signal, unless it is to FINISH.

        A put that is killed on its way leaves an object that nobody can remove for minutes. So that child is left alone without a
        parent: when its call returns (after 60 s at most, `child.ORPHAN_GRACE_S`) it removes what it wrote, and ends.
        """
        if self.dead:
            return
        self.dead = True
        process = self._process
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        if finish:
            with suppress(subprocess.TimeoutExpired):
                process.wait(FINISH_S)
                return
            self.unfinished = process.pid
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def connected(settings: ClientSettings, timeout: float = CALL_TIMEOUT_S) -> Iterator[Session]:
    """A session whose `setup` returned 0; UnreachableError with what to try where it did not."""
    with Session.open(settings, timeout) as session:
        session.about()
        try:
            code = session.setup().codes[0]
        except StoreTimeoutError as error:
            raise UnreachableError(
                f"no connection to the store at {settings.master_server_address}: {error}"
            ) from error
        if code != 0:
            raise UnreachableError(
                f"the store at {settings.master_server_address} cannot be connected: setup returned {code}; `hicachectl code -- {code}`"
            )
        yield session


def _start(python: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _WITHHELD} | _OVERRIDES
    try:
        return subprocess.Popen(
            [python, str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise UnreachableError(f"cannot start {python} for the store's client: {error}") from error


def _why_refused(name: str, reply: Mapping[str, Any]) -> str:
    text = one_line(str(reply.get("text", "")))
    if reply["error"] != "ImportError":
        return f"the store's client cannot do {name}: {reply['error']}: {text}"
    if library := libraries.missing_in(text):
        return f"the Mooncake client cannot be loaded because {library} is missing: {libraries.advice(library)}"
    return f"no Mooncake client library in {sys.executable} ({text}): install mooncake-transfer-engine, or mooncake-transfer-engine-non-cuda where there is no CUDA"


def _harmless(line: str) -> bool:
    """What the library logs as an error or warning in every healthy set-up."""
    return "Local segment descriptor not found" in line


def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdin is None:
        raise AssertionError
    return process.stdin


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise AssertionError
    return process.stdout
