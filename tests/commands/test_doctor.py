"""`hicachectl doctor` as far as no store is needed."""

import json
import subprocess

import invoke
import pytest

VARIABLES = ("MOONCAKE_MASTER", "MOONCAKE_CLIENT", "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH", "MOONCAKE_PROTOCOL")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    """No store is configured by the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_help_has_an_example():
    """The help shows how it is used."""
    done = invoke.hicachectl("doctor", "--help")
    assert done.returncode == 0
    assert "Example:" in done.stdout


def test_without_a_store_there_is_an_error_and_a_document():
    """Where nothing names a store, doctor says so, exits 1, and its document is whole."""
    done = invoke.hicachectl("doctor", "-o", "json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["schema"] == "hicachectl/doctor/1"
    missing = next(check for check in document["checks"] if check["name"] == "configuration")
    assert (missing["level"], missing["code"]) == ("error", "HC-A03")
    assert done.stderr.startswith("hicachectl: ")


def test_a_dead_master_is_an_error_not_an_end():
    """A master that is not there is found among the other checks: exit 1, and the output format changes nothing."""
    codes = [
        invoke.hicachectl("doctor", *words, env={"MOONCAKE_MASTER": "127.0.0.1:1"}).returncode
        for words in ([], ["-o", "json"])
    ]
    assert codes == [1, 1]
    done = invoke.hicachectl("doctor", env={"MOONCAKE_MASTER": "127.0.0.1:1"})
    assert "No connection to the store: nobody listens" in done.stdout


def test_an_engine_without_the_backend_is_fine():
    """A command that asks for no storage backend has a warning and no error."""
    command = ["--quick", "--", "python3", "-c", "pass", "-m", "sglang.launch_server"]
    done = invoke.hicachectl("doctor", "-o", "json", *command)
    levels = {check["name"]: check["level"] for check in json.loads(done.stdout)["checks"]}
    assert levels["backend"] == "warning"
    assert "configuration" not in levels


def test_the_configuration_on_the_command_line_is_read():
    """What the engine gets as extra configuration describes the store, and variables that differ are told as not used."""
    extra = json.dumps({"master_server_address": "127.0.0.1:1", "protocol": "tcp"})
    words = [
        "--enable-hierarchical-cache",
        "--hicache-storage-backend",
        "mooncake",
        "--hicache-storage-backend-extra-config",
        extra,
    ]
    done = invoke.hicachectl(
        "doctor",
        "--quick",
        "-o",
        "json",
        "--",
        "MOONCAKE_PROTOCOL=rdma",
        "python3",
        "-m",
        "sglang.launch_server",
        *words,
    )
    document = json.loads(done.stdout)
    assert document["source"] == "extra_config"
    assert {"name": "protocol", "value": "tcp", "origin": "extra_config", "remark": ""} in document["values"]
    assert [row["name"] for row in document["ignored"]] == ["MOONCAKE_PROTOCOL"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--server", "http://127.0.0.1:1"], 3, "cannot reach a server"),
        (["--server", "http://x", "--", "python"], 2, "not both"),
        (["--", "python3", "-m", "sglang.launch_server", "--tp", "two"], 4, "--tp"),
        (["--timeout", "0"], 2, ""),
        (["--timeout", "inf"], 2, "86400"),
        (["--no-such"], 2, ""),
    ],
    ids=["server", "both", "form", "timeout", "endless", "option"],
)
def test_exit_codes(words, code, said):
    """Each expected end has its exit code and a sentence."""
    done = invoke.hicachectl("doctor", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_imported_that_the_command_does_not_need():
    """The command line loads neither torch, nor SGLang, nor the client library into its own process."""
    code = "import sys; import hicachectl.commands.doctor; print(sorted(name for name in ('torch', 'sglang', 'mooncake') if name in sys.modules))"
    done = subprocess.run(
        [*invoke.argv()[:2], code], env=invoke.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
