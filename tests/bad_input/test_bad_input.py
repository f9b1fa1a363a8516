"""Bad input gets a sentence and the contract's exit code, never a traceback.

HICACHECTL_CASES is how many cases each kind gets: a few in the fast run, 10,000 in all in the slow one.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import answering
import invoke
import mutation
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mooncake_answers import METRICS_0_3_11

from hicachectl import cli, exits
from hicachectl.exits import OperatorError
from hicachectl.mooncake import config, master

SAMPLES = sorted(path.parent for path in (Path(__file__).parents[1] / "samples").rglob("run.json"))
FEW, MANY = int(os.environ.get("HICACHECTL_CASES", "60")), 2500
CHUNKS = 10
CODES = {*exits.MEANINGS} - {exits.INTERRUPTED}
READING = (
    ("explain", "-o", "json"), ("explain",), ("explain", "--request", "storage"), ("show", "-o", "json"), ("show",), ("show", "--request", "cold"),
    ("show", "--request", "storage", "-o", "json"), ("show", "--code", "R12"), ("points",), ("points", "-o", "json"), ("export", "--to", "otlp"), ("export", "--to", "perfetto"),
    ("export", "--to", "parquet"), ("probe-keys", "--request", "storage", "--no-store", "--run"), ("runs",), ("runs", "-o", "json"),
)  # fmt: skip
HEALTH = b'{"status":"ok","role":"leader","ha_state":"serving","service_ready":true,"leader_address":"a:1","view_version":3}'
COPY = b'{"size_":4096,"buffer_address_":1,"protocol_":"tcp","transport_endpoint_":"127.0.0.1:15121"}'
ANSWERS = {
    "/health": HEALTH,
    "/metrics": METRICS_0_3_11,
    "/metrics/summary": b"Mem Storage: 1.0 MB / 64.0 MB",
    "/get_all_segments": b"a:1\nb:2\n",
    "/get_all_keys": b"one\ntwo\n",
    "/query_key": COPY,
    "/batch_query_keys": b'{"success":true,"data":{"k":{"ok":true,"values":[' + COPY + b"]}}}",
}
ASKED: tuple[Callable[[str], object], ...] = (
    master.health, master.metrics, master.summary, master.segments, master.keys, master.sample, lambda url: master.query_key(url, "k"),
    lambda url: master.batch_query_keys(url, ["k", "l"]),
)  # fmt: skip
CONFIG = {
    "master_server_address": "127.0.0.1:50051", "protocol": "tcp", "device_name": "mlx5_0", "global_segment_size": "4gb", "local_hostname": "here", "metadata_server": "P2PHANDSHAKE",
    "master_metrics_port": 9003, "check_server": False, "standalone_storage": False, "client_server_address": "", "extra_backend_tag": "t", "prefetch_threshold": 64,
}  # fmt: skip
RELEASES = ("0.5.14", "0.5.21", "0.5.23", "1.0")
HARMLESS = ("runs", "show", "explain", "points", "code", "export", "probe-keys")
"""Commands that start nothing, wherever their words come from."""


def fine(done: invoke.Ended, words: object) -> None:
    """DONE ended as the contract says: a known code, and a sentence with every code that is none of an answer."""
    assert done.returncode in CODES, words
    assert "Traceback" not in done.stderr, words
    if done.returncode in (exits.USAGE, exits.UNREACHABLE, exits.BAD_INPUT):
        assert done.stderr.strip(), words


@contextmanager
def refused(seed: int) -> Iterator[None]:
    """What is done inside succeeds, or is refused with a sentence."""
    said = "fine"
    try:
        yield
    except OperatorError as error:
        said = str(error)
    assert said, seed


def recordings(seed: int, folder: Path) -> None:
    """A bad recording, read by one of the commands that read."""
    chance = random.Random(seed)
    run = folder / "home" / "run"
    try:
        mutation.recording(chance.choice(SAMPLES), run, chance)
        command, *options = chance.choice(READING)
        place = [] if command == "runs" else [str(run)]
        words = (command, *options, *place) if command == "probe-keys" else (command, *place, *options)
        fine(invoke.inside(*words), (seed, *words))
    finally:
        shutil.rmtree(run)


def configurations(seed: int, folder: Path) -> None:
    """A bad configuration: in a file, in extra_config, and in variables."""
    chance = random.Random(seed)
    text = json.dumps(mutation.document(CONFIG, chance, 3)) if chance.random() < 0.7 else mutation.octets(json.dumps(CONFIG).encode(), chance).decode(errors="replace")
    path = folder / f"config{chance.choice(('.json', '.toml', '.yaml', ''))}"
    path.write_text(text, errors="replace")
    variables = {name: str(chance.choice(mutation.JUNK)) for name in ("MOONCAKE_MASTER", "MOONCAKE_GLOBAL_SEGMENT_SIZE", "MOONCAKE_CHECK_SERVER", "MOONCAKE_DEVICE") if chance.random() < 0.4}
    if chance.random() < 0.5:
        variables["SGLANG_HICACHE_MOONCAKE_CONFIG_PATH"] = str(chance.choice((path, folder, "/nowhere")))
    extra = chance.choice((None, text, f"@{path}", "@/nowhere", "[]", "{}"))
    with refused(seed):
        found = config.read(variables, extra, chance.choice(RELEASES))
        found.segment_per_rank(chance.choice((1, 8)), 1)
        found.device_for(3)


def masters(seed: int, folder: Path) -> None:
    """A master that answers with nonsense."""
    del folder
    chance = random.Random(seed)
    answers = {
        path: (chance.choice((200, 200, 200, 404, 500, 503)), mutation.octets(body, chance) if chance.random() < 0.6 else json.dumps(chance.choice(mutation.JUNK)).encode())
        for path, body in ANSWERS.items()
    }
    with answering.server(answers) as url, refused(seed):
        chance.choice(ASKED)(url)


def command_lines(seed: int, folder: Path) -> None:
    """Options that exist and options that do not, with values that fit and values that do not."""
    chance = random.Random(seed)
    name = chance.choice(HARMLESS)
    command = typer.main.get_command(__import__(f"hicachectl.commands.{name.replace('-', '_')}", fromlist=["app"]).app)
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("-") and option not in ("--delete", "--keep")]
    values = [str(SAMPLES[0]), "storage", "R12", "json", "table", "1", "16", "otlp", "-", "--no-store", "--", "1,2,3", str(folder), "0.5.23"]
    words = [name, *mutation.words(options, values, chance)]
    if name == "probe-keys":
        words.append("--no-store")
    words = [word for word in words if not word.startswith(("--master", "--admin", "--server", "--target", "--from"))]
    fine(invoke.inside(*words), (seed, words))


KINDS = (recordings, configurations, masters, command_lines)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read or written but what the case makes."""
    monkeypatch.setenv("HICACHECTL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@each_kind
def test_a_few_bad_inputs_of_each_kind(kind: Callable[[int, Path], None], tmp_path: Path) -> None:
    """No case ends in a traceback, and each in a code of the contract."""
    for seed in range(FEW):
        kind(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
@each_kind
def test_ten_thousand_bad_inputs(kind: Callable[[int, Path], None], chunk: int, tmp_path: Path) -> None:
    """The same, 10,000 times over all kinds."""
    for seed in range(chunk * MANY // CHUNKS, (chunk + 1) * MANY // CHUNKS):
        kind(1_000_000 + seed, tmp_path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.one_of(st.binary(max_size=60), st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "name", "traceId", "spanId"]), inner)).map(lambda made: json.dumps(made).encode()))))  # fmt: skip
def test_lines_of_any_kind_are_read_or_refused(lines: list[bytes], tmp_path: Path) -> None:
    """Whatever lines a file has, they are spans, or are counted as unreadable, or the file is refused."""
    path = tmp_path / "any.jsonl"
    path.write_bytes(b"\n".join(lines))
    for words in (("explain", str(path)), ("show", str(path), "-o", "json"), ("export", str(path), "--to", "perfetto")):
        fine(invoke.inside(*words), words)


def test_the_commands_that_are_tried_exist() -> None:
    """Every command of the list is one of the program's."""
    assert {*HARMLESS} <= {row.name for row in cli.COMMANDS}
