"""Samples of the master beside the engine."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from recordings import Recording

from hicachectl import store
from hicachectl.recorder import sampling
from hicachectl.recorder.journal import Journal
from tracers import vocabulary as v

METRICS = """# TYPE master_key_count gauge
master_key_count {keys}
master_evicted_key_count 3
master_allocated_bytes 4096
master_total_capacity_bytes 268435456
master_put_start_failures_total 1
master_batch_put_start_failures_total 2
master_batch_get_replica_list_failures_total 4
"""


@contextmanager
def admin_side(metrics: Callable[[], str]) -> Iterator[int]:
    """A port that answers as a master's admin side."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = metrics() if self.path == "/metrics" else "127.0.0.1:1\n127.0.0.1:2\n"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *told: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sampled(folder: Path, port: int, seconds: float) -> store.Recording:
    """The recording that a sampler leaves after SECONDS."""
    journal = Journal(folder)
    sampler = sampling.Sampler(journal)
    sampler.add([("127.0.0.1:50051", port)])
    time.sleep(seconds)
    sampler.stop()
    journal.save(closed=True)
    return store.read([folder])


def test_counters_are_sampled_and_written_when_they_change(tmp_path: Path) -> None:
    """Of equal samples the first and the last are written: a change lies between two neighbours."""
    keys = iter([1, 1, 1, 2, 2, 2, 2, 2])
    with admin_side(lambda: METRICS.format(keys=next(keys))) as port:
        found = sampled(tmp_path, port, 5.5)
    last = found.spans.pop()
    assert (last.name, last.attributes[v.CLOSED], last.attributes[v.WRITTEN]) == (v.LEDGER, True, 4)
    assert [span.attributes[v.SAMPLE_KEYS] for span in found.spans] == [1, 1, 2, 2]
    assert found.spans[2].start_ns - found.spans[1].start_ns < 2e9
    told = found.spans[0].attributes
    assert (told[v.SAMPLE_EVICTED], told[v.SAMPLE_USED], told[v.SAMPLE_FAILURES]) == (3, 4096, 7)
    assert (told[v.SAMPLE_SEGMENTS], told[v.SAMPLE_CAPACITY], told[v.MASTER]) == (2, 268435456, "127.0.0.1:50051")
    assert found.spans[0].name == v.STORE_SAMPLE
    assert found.complete
    (ledger,) = found.ledgers.values()
    assert (ledger.written, ledger.closed, ledger.scheduler) == (5, True, False)


def test_a_master_that_does_not_answer_is_noted_once(tmp_path: Path) -> None:
    """No sample, one line in the ledger, and the recording is not called incomplete for it."""
    with admin_side(lambda: "") as port:
        pass
    found = sampled(tmp_path, port, 1.5)
    assert found.spans == []
    (ledger,) = found.ledgers.values()
    assert len(ledger.faults) == 1
    assert str(port) in ledger.faults[0]
    assert found.complete


def test_the_master_is_the_one_that_the_engine_or_the_environment_names(tmp_path: Path) -> None:
    """The engine's own configuration carries address and port; where it tells no port the environment's or SGLang's default holds."""
    made = Recording()
    engine = made.engine()
    engine.span(v.BACKEND_CONFIG, 1, attributes={v.MASTER: "a:50051", v.MASTER_HTTP_PORT: 9100})
    engine.span(v.BACKEND_CONFIG, 2, attributes={v.MASTER: "b:50051"})
    engine.span(v.BACKEND_CONFIG, 3, attributes={v.OUTCOME: v.FAILED})
    spans = store.read([made.write(tmp_path)]).spans
    assert sampling.masters_in(spans, {}) == {("a:50051", 9100), ("b:50051", 9003)}
    assert sampling.masters_in(spans[1:], {"MOONCAKE_MASTER_METRICS_PORT": "7"}) == {("b:50051", 7)}
    assert sampling.master_of({"MOONCAKE_MASTER": "c:1"}) == ("c:1", 9003)
    assert sampling.master_of({}) is None
