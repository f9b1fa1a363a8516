"""Where the admin port is looked for."""

import subprocess
import sys
import time

import answering
import pytest

from hicachectl.exits import BadInputError
from hicachectl.mooncake.probe.admin import Admin, Watch, locate

LISTENER = """
import http.server, socket, sys, threading
rpc = socket.create_server(("127.0.0.1", 0))
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"service_ready":true}'
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
admin = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(rpc.getsockname()[1], admin.server_address[1], flush=True)
admin.serve_forever()
"""


@pytest.fixture
def process():
    """A process of this machine that listens at two ports, of which one answers as an admin port; its ports."""
    words = [sys.executable, "-c", LISTENER, "--eviction_high_watermark_ratio=0.42"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        rpc, admin = running.stdout.readline().split()
        yield int(rpc), int(admin)
        running.kill()


def test_a_local_masters_port_and_watermark_are_found_beside_it(process):
    """Where nothing is configured, the process that listens at the RPC address is asked for its other ports and its watermark."""
    rpc, admin = process
    assert locate(f"127.0.0.1:{rpc}", None) == Admin(
        f"http://127.0.0.1:{admin}", "the master's process on this machine", 0.42
    )


def test_a_configured_port_is_believed(process):
    """A configured port is taken as it is, and the watermark of the local process stays known."""
    rpc, _ = process
    assert locate(f"localhost:{rpc}", 12345) == Admin("http://localhost:12345", "configured", 0.42)


def test_elsewhere_the_default_port_is_assumed():
    """Of a master on another host, the port that SGLang assumes is taken."""
    assert locate("192.0.2.1:50051", None) == Admin("http://192.0.2.1:9003", "SGLang's default port")


def test_a_high_availability_address_names_no_host():
    """An address with a scheme is the backend's, and tells no admin port."""
    assert locate("etcd://10.0.0.1:2379", 9003) is None


@pytest.mark.parametrize("address", ["][", "", ":"])
def test_an_address_that_is_none_is_bad_input(address):
    """Nonsense is told as such."""
    with pytest.raises(BadInputError):
        locate(address, None)


def test_a_port_that_does_not_answer_is_asked_once():
    """A silence costs its time-out once; the reason is kept."""
    with answering.silent() as url:
        watch = Watch(Admin(url, "given"), timeout=0.3)
        began = time.monotonic()
        assert [watch.health(), watch.sample(), watch.metrics(), watch.segments(), watch.endpoint("k")] == [
            None,
            None,
            None,
            [],
            "",
        ]
        assert time.monotonic() - began < 2
        assert "no answer" in watch.problem


def test_a_refusal_is_no_silence():
    """A port that answers nonsense is asked again, because an answer costs nothing."""
    with answering.server({"/health": (200, b'{"service_ready":true}')}) as url:
        watch = Watch(Admin(url, "given"), timeout=1)
        assert watch.sample() is None
        health = watch.health()
    assert health is not None
    assert health.service_ready


def test_the_rpc_port_is_told_from_the_admin_port():
    """What answers `/health` with JSON is an admin port, whatever it was taken for."""
    with answering.server({"/health": (200, b"{}")}) as url:
        assert Watch(None).answers_as_admin(url.removeprefix("http://"))
    assert not Watch(None).answers_as_admin("127.0.0.1:1")
    assert not Watch(None).answers_as_admin("etcd://127.0.0.1:1")
