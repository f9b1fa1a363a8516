"""`hicachectl probe` as far as no store is needed: usage, exit codes, and what is said when nothing can be reached."""

import json
import subprocess
import time

import invoke
import pytest

from hicachectl.mooncake import master

NO_STORE = dict.fromkeys((), "")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    """No store is configured by the environment."""
    for name in (
        "MOONCAKE_MASTER",
        "MOONCAKE_CLIENT",
        "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
        "MOONCAKE_MASTER_METRICS_PORT",
    ):
        monkeypatch.delenv(name, raising=False)


def test_help_has_an_example():
    """The help shows how it is used."""
    done = invoke.hicachectl("probe", "--help")
    assert done.returncode == 0
    assert "Example:" in done.stdout


def test_a_closed_port_is_told_at_once_with_exit_3():
    """A dead address ends with exit 3 long before the library's own 90 s, and the document names the step."""
    began = time.monotonic()
    done = invoke.hicachectl("probe", "--master", "127.0.0.1:1", "--timeout", "5", "-o", "json")
    assert time.monotonic() - began < 5
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert [(step["name"], step["ok"], step["code_name"]) for step in document["steps"]] == [
        ("setup", False, "NO_CONNECTION")
    ]
    assert document["left_behind"] == []
    assert done.stderr.startswith(
        "hicachectl: no connection to the store: nobody listens at the master's address 127.0.0.1:1"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--master", "127.0.0.1"], 4, "expected HOST:PORT"),
        (["--master", "]["], 4, "not a master's address"),
        (["--master", "no-such-host.invalid:1"], 3, "no connection"),
        ([], 3, "MOONCAKE_MASTER"),
        (["--http"], 3, "MOONCAKE_MASTER"),
        (["--http", "--admin", "127.0.0.1:1"], 3, "cannot reach"),
        (["--http", "--admin", "http://"], 4, "not a master's address"),
        (["--master", "127.0.0.1:1", "--size", "much"], 2, "no size"),
        (["--master", "127.0.0.1:1", "--pages", "0"], 2, ""),
        (["--master", "127.0.0.1:1", "--timeout", "0"], 2, ""),
        (["--master", "127.0.0.1:1", "--timeout", "inf"], 2, "86400"),
        (["--master", ""], 4, "expected HOST:PORT"),
        (["--extra-config", '{"master_server_address": 5}'], 4, "no text"),
        (["--master", "127.0.0.1:1", "-o", "yaml"], 2, ""),
        (["--extra-config", "{"], 4, "JSON"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_exit_codes(words, code, said):
    """Each expected end has its exit code and one line on stderr, in both output formats."""
    done = invoke.hicachectl("probe", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_imported_that_the_command_does_not_need():
    """The command line loads neither torch nor the client library into its own process."""
    code = (
        "import sys; import hicachectl.commands.probe; "
        "print(sorted(name for name in ('torch', 'sglang', 'mooncake', 'mooncake.store') if name in sys.modules))"
    )
    done = subprocess.run(
        [*invoke.argv()[:2], code], env=invoke.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_default_port_is_the_one_that_sglang_assumes():
    """Where nothing tells the admin port, it is looked for beside the master at 9003."""
    assert master.base_url("10.0.0.1:50051") == "http://10.0.0.1:9003"
