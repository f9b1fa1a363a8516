"""Presence maps against a real store: filled by a client and by a real engine, with objects removed at random."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import compressed_model
import engines
import invoke
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hicachectl.keys.look import asked, of_tokens
from hicachectl.keys.objects import layout
from hicachectl.keys.page import page_keys
from hicachectl.keys.pools import Kind, parse
from hicachectl.keys.shape import Shape
from hicachectl.lab import environment, model
from hicachectl.lab import store as lab_store
from hicachectl.mooncake import master
from hicachectl.mooncake.client import ClientSettings, Session, connected
from hicachectl.mooncake.exists import Place, Way

pytestmark = pytest.mark.real

TOKENS = [3 * token % 997 for token in range(200)]
SHAPES = {
    "mha-tp1": Shape(page_size=16, tag="mha1"),
    "mha-tp2": Shape(page_size=16, tag="mha2", tp_size=2),
    "mha-split": Shape(page_size=16, tag="split", tp_lcm_size=2),
    "mla-tp2": Shape(page_size=16, tag="mla", kind=Kind.mla, tp_size=2),
    "mla-pp2-indexer": Shape(page_size=16, tag="pp", kind=Kind.mla, pp_size=2, pools=(parse("indexer", "0.5.14"),)),
}


def place(store: lab_store.Store) -> Place:
    """The store as a client of this test sees it."""
    return Place(store.http, ClientSettings(store.master, local_hostname="127.0.0.1"))


@pytest.fixture(scope="module")
def session(store: lab_store.Store) -> Iterator[Session]:
    """A client that puts and removes the objects of these tests, and nothing else."""
    with connected(place(store).settings) as open_session:
        assert open_session.buffers(1 << 16).codes == (0, 0)
        yield open_session


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("way", [Way.auto, Way.client])
def test_the_hit_is_a_brute_force_count_whatever_is_removed(
    store: lab_store.Store, session: Session, shape: Shape, way: Way
) -> None:
    """With objects removed at random from a real store, map, hit, gap and unreachable pages are what counting gives."""
    pages = page_keys(TOKENS, shape.page_size, sglang=shape.sglang)
    keys = [key for page in pages for key in layout(shape).keys(page)]
    width = len(keys) // len(pages)

    @given(st.sets(st.integers(0, len(keys) - 1), max_size=6))
    @settings(max_examples=25 if way is Way.auto else 3, deadline=None, suppress_health_check=list(HealthCheck))
    def check(removed: set[int]) -> None:
        assert set(session.batch_put_from(keys, 64).codes) == {0}
        gone = [keys[index] for index in removed]
        assert not gone or set(session.remove(gone).codes) == {0}
        found = asked(of_tokens(TOKENS, shape), place(store), way).presence
        assert found is not None
        assert [answer for row in found.answers for answer in row] == [
            int(index not in removed) for index in range(len(keys))
        ]
        whole = [all(page * width + slot not in removed for slot in range(width)) for page in range(len(pages))]
        hit = next((page for page, complete in enumerate(whole) if not complete), len(pages))
        assert found.contiguous_pages == hit
        assert found.unreachable_pages == sum(whole[hit:])
        assert (found.gap.key if found.gap else None) == (keys[min(removed)] if removed else None)

    try:
        check()
    finally:
        session.remove(keys)


def test_asking_gently_leaves_no_lease(store: lab_store.Store, session: Session) -> None:
    """The look-up that is chosen by itself names no side effect, and the master counts no call that takes a lease or counts as a hit."""
    shape = SHAPES["mha-tp1"].but(tag="lease")
    keys = [key for page in page_keys(TOKENS, 16, sglang="0.5.14") for key in layout(shape).keys(page)]
    assert set(session.batch_put_from(keys, 64).codes) == {0}
    before = master.metrics(store.http)
    report = asked(of_tokens(TOKENS, shape), place(store))
    after = master.metrics(store.http)
    assert report.presence is not None
    assert report.presence.contiguous_pages == len(report.page_keys)
    assert report.side_effects == ()
    touched = {
        name
        for name in after
        if after[name] != before.get(name) and ("exist" in name or "get_replica_list" in name or "valid_get" in name)
    }
    assert touched == set()
    session.remove(keys)


def test_asking_as_a_client_says_that_it_takes_leases(store: lab_store.Store, session: Session) -> None:
    """The existence call of the client library is named among the side effects."""
    del session
    report = asked(of_tokens(TOKENS, SHAPES["mha-tp1"].but(tag="none")), place(store), Way.client)
    assert any("lease" in line for line in report.side_effects)


@dataclass(frozen=True)
class Served:
    """A real server beside a real store."""

    url: str
    store: lab_store.Store
    tp_size: int
    kind: Kind

    @property
    def objects(self) -> int:
        """Objects of a page: a K and a V of each rank, or one of compressed KV that all ranks share."""
        return 1 if self.kind is Kind.mla else 2 * self.tp_size


SERVER = (
    *("--device", "cpu", "--skip-tokenizer-init", "--skip-server-warmup"),
    *(
        "--attention-backend",
        "torch_native",
        "--sampling-backend",
        "pytorch",
        "--disable-cuda-graph",
        "--disable-overlap-schedule",
    ),
    *("--page-size", "16", "--max-total-tokens", "4096", "--enable-hierarchical-cache", "--hicache-ratio", "2"),
    *(
        "--hicache-io-backend",
        "direct",
        "--hicache-mem-layout",
        "page_first_direct",
        "--hicache-write-policy",
        "write_through",
    ),
    *(
        "--hicache-storage-backend",
        "mooncake",
        "--hicache-storage-prefetch-policy",
        "wait_complete",
        "--host",
        "127.0.0.1",
    ),
)
START_S = 240.0


def call(url: str, body: object = None, timeout: float = 60.0) -> bytes:
    """GET, or POST a JSON BODY."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read()


def wait_until(ready, seconds: float, process: subprocess.Popen | None = None) -> None:
    """Wait until READY says so without an error."""
    end = time.monotonic() + seconds
    while True:
        try:
            if ready():
                return
        except OSError:
            pass
        assert process is None or process.poll() is None, "the server has ended"
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.5)


SERVERS = {"tp1": (1, Kind.mha), "tp2": (2, Kind.mha), "mla-tp1": (1, Kind.mla), "mla-tp2": (2, Kind.mla)}


@pytest.fixture(scope="module", params=SERVERS.values(), ids=SERVERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of one rank or of two, of a model with heads or with compressed KV, that has computed one prompt and written it."""
    pytest.importorskip("sglang")
    tp_size, kind = request.param
    folder = tmp_path_factory.mktemp("server")
    (compressed_model if kind is Kind.mla else model).write(folder / "model")
    port = invoke_free_port()
    words = [
        "--model-path",
        str(folder / "model"),
        "--served-model-name",
        "tiny/one",
        "--port",
        str(port),
        "--tp-size",
        str(tp_size),
        *("--load-format", "auto" if kind is Kind.mla else "dummy"),
    ]
    with lab_store.running(64 << 20) as store, (folder / "log").open("wb") as log:
        env = invoke.environment(environment.for_command(os.environ, store.environment(), folder / "model"))
        command = [sys.executable, "-m", "sglang.launch_server", *SERVER, *words]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: call(f"{url}/server_info"), START_S, process)
            sampling = {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
            call(f"{url}/generate", {"input_ids": PROMPT, "sampling_params": sampling}, START_S)
            found = Served(url, store, tp_size, kind)
            objects = found.objects * (len(PROMPT) // 16)
            wait_until(
                lambda: len([key for key in master.keys(store.http) if "warmup" not in key]) >= objects, 60, process
            )
            yield found
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(Path(folder / "log").read_text(errors="replace")[-3000:])


PROMPT = engines.tokens(597)


def invoke_free_port() -> int:
    """A port that nobody listens on."""
    import socket  # noqa: PLC0415 - for this alone

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def probe(served: Served, *words: str) -> dict:
    """Run the command against the server and its store."""
    where = ("--server", served.url, "--master", served.store.master, "--admin", served.store.http)
    return invoke.document(
        invoke.hicachectl("probe-keys", "--tokens", ",".join(map(str, PROMPT)), *where, *words, "-o", "json")
    )


@pytest.mark.slow
def test_what_a_real_engine_wrote_is_there_under_the_shape_that_the_server_tells(served: Served) -> None:
    """Every object of every full page that a real engine wrote is found, from the server's own description alone."""
    found = probe(served)
    assert (found["shape"]["tp_size"], found["shape"]["kind"]) == (served.tp_size, served.kind)
    assert (found["contiguous_pages"], len(found["pages"])) == (37, 37)
    assert all(page["complete"] for page in found["pages"])
    ours = {each["key"] for page in found["pages"] for each in page["objects"]}
    theirs = {key for key in master.keys(served.store.http) if "warmup" not in key}
    assert ours == {key for key in theirs if any(page["page_key"] in key for page in found["pages"])}
    assert found["engine_would"] == {**found["engine_would"], "prefetch": True, "tokens": 592, "code": None}


@pytest.mark.slow
def test_a_page_removed_from_what_a_real_engine_wrote_cuts_the_hit_that_the_engine_gets(served: Served) -> None:
    """With one object gone, the hit that is foretold is what the engine then reads from the store."""
    key = probe(served)["pages"][20]["objects"][-1]["key"]
    with connected(ClientSettings(served.store.master, local_hostname="127.0.0.1")) as session:
        assert session.remove([key]).codes == (0,)
    found = probe(served)
    assert (found["contiguous_pages"], found["unreachable_pages"]) == (20, 16)
    assert found["first_gap"] == {"page": 20, "key": key, "code": None}
    assert (found["engine_would"]["tokens"], found["engine_would"]["code"]) == (320, "HC-R13")
    wait_until(lambda: b"flushed" in call(f"{served.url}/flush_cache", {}).lower(), 30)
    sampling = {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
    answer = json.loads(call(f"{served.url}/generate", {"input_ids": PROMPT, "sampling_params": sampling}))
    assert answer["meta_info"]["cached_tokens"] == found["engine_would"]["tokens"]


@pytest.mark.slow
def test_a_real_engines_objects_are_found_under_a_wrong_shape(served: Served) -> None:
    """Asked under another page size and tag, --why names the shape that the engine's objects fit."""
    found = probe(served, "--page-size", "32", "--tag", "wrong", "--tp-size", "1", "--why")["fits_instead"]
    assert found["changes"]["page_size"] == 16
    # All ranks share compressed KV: its keys are the same whatever their number.
    assert found["changes"].get("tp_size", 1) == (served.tp_size if served.kind is Kind.mha else 1)
    assert "prefix" in found["changes"]


@pytest.mark.slow
def test_the_hit_on_what_a_real_engine_wrote_is_a_brute_force_count(served: Served) -> None:
    """With objects of a real engine removed at random, map, hit and unreachable pages are what counting the master's own list gives."""
    told = probe(served)
    shape = Shape(**{name: told["shape"][name] for name in ("sglang", "page_size", "tp_size", "tag", "model_name", "format_tag")}, kind=served.kind)
    pages = [page["page_key"] for page in told["pages"]]
    written = [{each["key"] for each in page["objects"]} for page in told["pages"]]
    every = sorted(set().union(*written))
    assert len(every) == served.objects * len(pages)
    where = Place(served.store.http, ClientSettings(served.store.master, local_hostname="127.0.0.1"))

    with connected(where.settings) as session:
        assert session.buffers(1 << 16).codes == (0, 0)

        @given(st.sets(st.sampled_from(every), max_size=6))
        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
        def check(removed: set[str]) -> None:
            # A put leaves the engine's objects as they are, and brings back the names of those that an earlier example removed.
            assert set(session.batch_put_from(every, 64).codes) == {0}
            assert not removed or set(session.remove(sorted(removed)).codes) == {0}
            listed = set(master.keys(served.store.http))
            whole = [{key for key in every if page in key} <= listed for page in pages]
            hit = next((page for page, complete in enumerate(whole) if not complete), len(pages))
            found = asked(of_tokens(PROMPT, shape), where).presence
            assert found is not None
            assert (found.contiguous_pages, found.unreachable_pages) == (hit, sum(whole[hit:]))
            assert sum(answer for row in found.answers for answer in row) == len(every) - len(removed)
            assert (found.gap is None) == (not removed)

        check()
