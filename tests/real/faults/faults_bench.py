"""The fault bench: real engines and a real store under the control of a test, and the verdict on what they recorded."""

import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import invoke

from hicachectl.keys.shape import Shape
from hicachectl.lab import environment, model
from hicachectl.lab import store as lab_store
from hicachectl.lab.store import Store
from tracers.detail import as_words, page_keys

HERE = Path(__file__).parent
START_S = 240.0
ANSWER_S = 150.0
MIB = 1 << 20
RELEASE = metadata.version("sglang") if importlib.util.find_spec("sglang") else "0.5.14"


def tokens(count: int, seed: int) -> list[int]:
    """A prompt of COUNT token ids; other seeds share no prefix."""
    rng = random.Random(seed)
    return [rng.randrange(3, 1000) for _ in range(count)]


class EngineEndedError(Exception):
    """The engine's process ended before it was asked to."""


@dataclass
class Engine:
    """One engine process with its recording."""

    run: Path
    process: subprocess.Popen[bytes]
    connection: socket.socket
    log: Path
    sabotage_file: Path
    pid: int
    """The process that drives the engine; its schedulers are in its group."""
    model: str
    """The name of its model, which is a part of its keys from 0.5.23 on."""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Request id -> what the engine returned for it."""
    _number: int = 0
    _pending: bytes = b""
    _replies: dict[int, dict[str, Any]] = field(default_factory=dict)

    # -- commands --------------------------------------------------------------------------------------------------
    def ask(self, rid: str, prompt: Sequence[int], **options: Any) -> dict[str, Any]:
        """One request, to its end; cached tokens and what the engine says of them."""
        return self.ask_all({rid: prompt}, **options)[rid]

    def ask_all(self, prompts: Mapping[str, Sequence[int]], **options: Any) -> dict[str, dict[str, Any]]:
        """Requests sent together, to their end."""
        return self.end(self.begin(prompts, **options))

    def begin(self, prompts: Mapping[str, Sequence[int]], *, new: int = 4, extra_key: str | None = None) -> int:
        """Send requests and do not wait; NEW output tokens each, all in the namespace of EXTRA_KEY."""
        more = {} if extra_key is None else {"extra_key": extra_key}
        return self.send("generate", prompts=[list(prompt) for prompt in prompts.values()], rids=list(prompts), new=new, **more)

    def end(self, number: int) -> dict[str, dict[str, Any]]:
        """Wait for requests that were begun."""
        answers: dict[str, dict[str, Any]] = self.reply(number)["answers"]
        self.answers |= answers
        return answers

    def flush(self) -> None:
        """Empty device and host; the engine may still be finishing what it was asked before."""
        assert soon(lambda: self.tell("flush")["success"], 20), "the engine never became idle"

    def tell(self, do: str, **fields: Any) -> dict[str, Any]:
        """One command, to its end."""
        return self.reply(self.send(do, **fields))

    def send(self, do: str, **fields: Any) -> int:
        """Send a command; its number."""
        self._number += 1
        self.connection.sendall(json.dumps({"number": self._number, "do": do, **fields}).encode() + b"\n")
        return self._number

    def reply(self, number: int, timeout: float = ANSWER_S) -> dict[str, Any]:
        """Wait for the answer to a command."""
        deadline = time.monotonic() + timeout
        while number not in self._replies:
            self.connection.settimeout(max(0.01, deadline - time.monotonic()))
            data = self.connection.recv(1 << 16)
            if not data:
                raise EngineEndedError(self.said())
            *lines, self._pending = (self._pending + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                self._replies[told.pop("number")] = told
        found = self._replies.pop(number)
        assert "error" not in found, found["error"]
        return found

    def objects(self, prompt: Sequence[int], *, page: int = 16, tag: str | None = None) -> list[list[str]]:
        """Object keys of every full page of a prompt, as one rank of this engine names them."""
        prefix = Shape(sglang=RELEASE, model_name=self.model, tag=tag).prefix
        return [[f"{prefix}{key}_0_{part}" for part in ("k", "v")] for key in pages(prompt, page)]

    def written(self, on: Store, prompt: Sequence[int], timeout: float = 60, **shape: Any) -> None:
        """Wait until the store has every full page of a prompt."""
        wanted = {key for keys_ in self.objects(prompt, **shape) for key in keys_}
        assert soon(lambda: wanted <= set(keys(on)), timeout), f"{len(wanted - set(keys(on)))} of {len(wanted)} objects were not written"

    def store(self, on: Store, rid: str, prompt: Sequence[int], **shape: Any) -> None:
        """Have the engine write a prompt, wait until the store has it, and empty device and host."""
        self.ask(rid, prompt)
        self.written(on, prompt, **shape)
        self.flush()

    def snapshot(self, name: str) -> Path:
        """A copy of the recording as it is now."""
        time.sleep(1.5)
        return Path(shutil.copytree(self.run, self.run.with_name(f"{name}.run")))

    def sabotage(self, **asked: Any) -> None:
        """Make the backend's calls slow or broken from now on; nothing restores them."""
        part = self.sabotage_file.with_suffix(".part")
        part.write_text(json.dumps(asked))
        part.replace(self.sabotage_file)

    # -- life ------------------------------------------------------------------------------------------------------
    def stop(self) -> int:
        """End the engine in order; the exit code."""
        with suppress(OSError):
            self.send("stop")
        code = self.process.wait(START_S)
        self.connection.close()
        return code

    def kill(self) -> None:
        """Let everything of the engine die at once."""
        os.killpg(os.getpgid(self.pid), signal.SIGKILL)
        self.process.wait(60)

    def said(self) -> str:
        """The end of the engine's log."""
        return self.log.read_text(errors="replace")[-4000:]


@dataclass
class Bench:
    """Where engines of one test module live."""

    folder: Path
    engines: list[Engine] = field(default_factory=list)

    @contextmanager
    def engine(self, store: Store | Mapping[str, str], name: str, *, env: Mapping[str, str] | None = None, **settings: Any) -> Iterator[Engine]:
        """An engine of these settings on STORE, traced; it has ended after the `with`."""
        started = self._start(store, name, env or {}, settings)
        self.engines.append(started)
        try:
            yield started
            if started.process.poll() is None:
                code = started.stop()
                assert code == 0, f"the engine ended with {code}: {started.said()}"
        finally:
            if started.process.poll() is None:
                started.kill()

    def fails(self, store: Store | Mapping[str, str], name: str, *, env: Mapping[str, str] | None = None, **settings: Any) -> tuple[Path, int]:
        """Start an engine that cannot start; its recording and the exit code."""
        run, process, listening, _ = self._launch(store, name, env or {}, settings)
        try:
            code = process.wait(START_S)
        finally:
            listening.close()
            if process.poll() is None:
                process.terminate()
        return run, code

    def _start(self, store: Store | Mapping[str, str], name: str, env: Mapping[str, str], settings: Mapping[str, Any]) -> Engine:
        run, process, listening, log = self._launch(store, name, env, settings)
        with listening:
            listening.settimeout(1.0)
            deadline = time.monotonic() + START_S
            while True:
                try:
                    connection, _ = listening.accept()
                    break
                except TimeoutError:
                    assert process.poll() is None, f"the engine did not start: {log.read_text(errors='replace')[-4000:]}"
                    assert time.monotonic() < deadline, "the engine takes too long to start"
        ready = connection.makefile("rb").readline()
        model_path = str(settings.get("model_path", self.folder / "model"))
        return Engine(run, process, connection, log, self.folder / f"{name}.sabotage", json.loads(ready)["ready"], model_path)

    def _launch(
        self, store: Store | Mapping[str, str], name: str, env: Mapping[str, str], settings: Mapping[str, Any]
    ) -> tuple[Path, subprocess.Popen[bytes], socket.socket, Path]:
        run, log, config = self.folder / f"{name}.run", self.folder / f"{name}.log", self.folder / f"{name}.json"
        path = f"/tmp/hicachectl-faults-{os.getpid()}-{name}"
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen(1)
        config.write_text(json.dumps({"engine": settings, "socket": path}))
        given = store.environment() if isinstance(store, Store) else dict(store)
        model.write(self.folder / "model")
        inner = environment.for_command(invoke.environment(), given, self.folder / "model")
        inner |= {"HICACHECTL_TESTS_SABOTAGE": str(self.folder / f"{name}.sabotage"), **env}
        inner["PYTHONPATH"] = os.pathsep.join([str(self._plugin()), str(HERE), inner.get("PYTHONPATH", "")])
        argv = invoke.argv("trace", "--run", str(run), "--", sys.executable, str(HERE / "faults_driver.py"), str(config))
        with log.open("wb") as out:
            process = subprocess.Popen(argv, env=inner, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        return run, process, listening, log

    def _plugin(self) -> Path:
        """A folder that gives SGLang the plugin `sabotage` beside those that are installed."""
        info = self.folder / "site" / "hicachectl_tests-1.0.dist-info"
        if not info.exists():
            info.mkdir(parents=True)
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hicachectl-tests\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nhicachectl_tests = faults_sabotage:register\n")
        return info.parent


# -- the store -----------------------------------------------------------------------------------------------------
@contextmanager
def store(**options: Any) -> Iterator[Store]:
    """A store with short leases, so that objects can be removed and evicted."""
    with lab_store.running(**{"lease_ttl_ms": 200, **options}) as running:
        yield running


def keys(of: Store) -> list[str]:
    """Object keys in the store, without those of warm-up."""
    with urllib.request.urlopen(f"{of.http}/get_all_keys", timeout=5) as answer:
        return sorted(key for key in answer.read().decode().split("\n") if key and "warmup" not in key)


def pages(prompt: Sequence[int], page: int = 16) -> list[str]:
    """Page keys of every full page of a prompt."""
    return page_keys(as_words(prompt), page)


def settled(of: Store) -> bool:
    """Whether nothing came or went for a second."""
    before = keys(of)
    time.sleep(1.0)
    return keys(of) == before


def count(of: Store) -> int:
    """All objects in the store, those of warm-up too."""
    with urllib.request.urlopen(f"{of.http}/get_all_keys", timeout=5) as answer:
        return len(answer.read().decode().split())


def segments(of: Store) -> list[str]:
    """Mounted segments."""
    with urllib.request.urlopen(f"{of.http}/get_all_segments", timeout=5) as answer:
        return answer.read().decode().split()


REMOVE = """
import sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", sys.argv[1]) == 0
for key in sys.argv[2:]:
    assert store.remove(key, True) == 0, key
store.close()
"""


def remove(of: Store, *wanted: str) -> None:
    """Remove objects from the store, whatever leases they have, through a client of its own."""
    done = subprocess.run([sys.executable, "-c", REMOVE, of.master, *wanted], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def soon(true: Any, timeout: float = 10.0) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# -- the verdict ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Judged:
    """What `explain` says of recordings, whole or for one request."""

    runs: tuple[Path, ...]
    document: dict[str, Any]

    def request(self, rid: str, engine: Engine | None = None) -> dict[str, Any]:
        """The row of a request (its last attempt), checked: the account adds up."""
        rows = [row for row in self.document["requests"] if row["rid"] == rid]
        assert rows, f"no request {rid}"
        balanced(rows[-1])
        if engine is not None and rid in engine.answers:
            reused = rows[-1]["tokens"]["reused"]
            assert sum(reused.values()) == engine.answers[rid]["cached_tokens"], (rows[-1]["tokens"], engine.answers[rid])
        return rows[-1]

    def findings(self, rid: str) -> list[dict[str, Any]]:
        """Findings that name a request, in order."""
        return [each for each in self.document["findings"] if rid in each["rids"]]

    def first(self, rid: str) -> dict[str, Any]:
        """The first finding of a request."""
        found = self.findings(rid)
        assert found, f"nothing was found for {rid}: {self.document['findings']}"
        return found[0]

    def code(self, code: str) -> dict[str, Any]:
        """The finding of a code."""
        found = [each for each in self.document["findings"] if each["code"] == code]
        assert found, f"no {code} in {[each['code'] for each in self.document['findings']]}"
        return found[0]


def explain(*runs: Path, request: str | None = None) -> Judged:
    """`hicachectl explain RUNS -o json`, of one request where it is named."""
    words = ["explain", *map(str, runs), "-o", "json", *(["--request", request] if request else [])]
    done = invoke.hicachectl(*words)
    assert done.returncode in (0, 1), done.stderr
    return Judged(runs, json.loads(done.stdout))


def balanced(row: Mapping[str, Any]) -> None:
    """The promise of the token account; a request that never came to a prefill has none."""
    told = row["tokens"]
    if told["computed"] is None:
        return
    lost = sum(each["tokens"] for each in row["lost"])
    assert row["prompt_tokens"] == sum(told["reused"].values()) + told["computed"], row
    assert told["computed"] == lost + told["new"] + told["tail"], row
    assert min(told["computed"], told["new"], told["tail"], *told["reused"].values()) >= 0, row
