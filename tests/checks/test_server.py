"""A running server in place of a command."""

import json
import os
import subprocess
import sys

import answering
import pytest

from hicachectl.checks import scene
from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.mooncake.probe import processes
from hicachectl.serving import server as serving

SERVER = """
import http.server, json, sys
known, answer = sys.argv[1], sys.argv[2].encode()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = answer if self.path == known else b"{}"
        self.send_response(200 if self.path == known else 404)
        self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
INFO = {
    "version": "0.5.14",
    "tp_size": 2,
    "hicache_storage_backend": "mooncake",
    "enable_hierarchical_cache": True,
    "internal_states": [],
}


@pytest.fixture
def server():
    """Starts servers that answer one path with one body."""
    running = []

    def start(path: str, body: str, **environment: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, path, body],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        running.append(process)
        return f"http://127.0.0.1:{process.stdout.readline().strip()}"

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("path", serving.INFO)
def test_a_server_tells_its_arguments(server, path):
    """The arguments come from the server's own answer, by its new path and by the older one."""
    subject = scene.of_server(server(path, json.dumps(INFO)), {}, "/ours")
    assert (subject.arguments["tp_size"], subject.arguments.origin("tp_size")) == (2, "the server's answer")
    assert subject.arguments.uses_mooncake
    assert subject.server_release == "0.5.14"


def test_a_local_servers_environment_counts(server):
    """A server on this machine is looked at in its own environment and its own Python."""
    subject = scene.of_server(
        server("/server_info", json.dumps(INFO), MOONCAKE_MASTER="theirs:1"), {"MOONCAKE_MASTER": "ours:1"}, "/ours"
    )
    assert subject.environment["MOONCAKE_MASTER"] == "theirs:1"
    assert subject.python == sys.executable
    assert subject.remarks == ()


def test_a_server_that_was_started_by_name_is_found_in_its_virtual_environment(tmp_path):
    """A Python that was found by the PATH is named by its link, which alone leads to its packages."""
    link = tmp_path / "bin" / "python-of-ours"
    link.parent.mkdir()
    link.symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{link.parent}:/usr/bin:/bin"}
    words = ["python-of-ours", "-c", "print(flush=True); import time; time.sleep(60)"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        found = processes.interpreter_of(process.pid)
        process.kill()
    assert found == str(link)


def test_no_server():
    """Nobody at the URL is unreachable."""
    with pytest.raises(UnreachableError, match="127"):
        scene.of_server("127.0.0.1:1", {}, "/ours")


@pytest.mark.parametrize(("path", "body"), [("/else", "{}"), ("/server_info", "<html>"), ("/server_info", "[1]")])
def test_what_is_no_sglang_server(server, path, body):
    """A server that answers something else is bad input."""
    with pytest.raises(BadInputError, match="SGLang server"):
        scene.of_server(server(path, body), {}, "/ours")


def test_an_endless_answer_is_cut(monkeypatch):
    """An answer without an end is refused at a bound."""
    monkeypatch.setattr(serving, "LARGEST_ANSWER", 1 << 20)
    with (
        answering.raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 65536, forever=True) as url,
        pytest.raises(BadInputError, match="does not stop"),
    ):
        scene.of_server(url, {}, "/ours")


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["headers", "body"])
def test_an_answer_that_drips_is_cut(head, monkeypatch):
    """What never ends and is never silent for long is hung up on, though it be in the middle of its headers."""
    monkeypatch.setattr(serving, "LONGEST_ANSWER_S", 0.5)
    with answering.slow(head, b"X: y\r\n", 0.1) as url, pytest.raises(BadInputError, match="does not stop"):
        scene.of_server(url, {}, "/ours")


@pytest.mark.parametrize("url", ["http://", "ftp://x", "http://[::1", "http://" + "a" * 70])
def test_what_is_no_url(url):
    """A text that is no URL is bad input, or nobody is there."""
    with pytest.raises((BadInputError, UnreachableError)):
        scene.of_server(url, {}, "/ours")
