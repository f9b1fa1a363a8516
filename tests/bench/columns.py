"""A column store of many spans: time and memory to load it, to ask over all of it, and to explain one request.

Run alone: python -m tests.bench.columns [--columns=SPANS]; `make bench BENCH=--columns=10000000` for the figures of docs/fleet.md. A million spans at most are
loaded from a recording; the database copies them until there are as many as were asked for.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hicachectl.store.columns import opened
from hicachectl.store.columns.database import filled
from tests.bench.pairs import Figure, quick, show

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "samples" / "versions" / "0.5.14"
MAIN = "import sys; from hicachectl.cli import main; main()"
HOSTS = 8
PIECE = 1_000_000
"""Spans that are loaded from a recording at most."""
LINE = 512
APART_MS = 50
"""From one prompt to the next."""
LOST = 10
"""Of so many prompts one is asked again and not found, though it was written."""
COUNTED = ("hicache.batch.id", "hicache.node.id", "hicache.operation.id")
HASHES = {"hicache.page.keys": 64, "hicache.request.page_keys": 64, "hicache.request.fingerprint": 16, "hicache.prefetch.anchor": 64}
COPY = """
WITH
    substring(SpanId, 1, 8) AS old,
    lower(leftPad(hex(toUInt32(reinterpretAsUInt32(reverse(unhex(old))) + $shift)), 8, '0')) AS new,
    mapApply((key, value) -> (key, if(key IN $hashes OR key = $RID, replaceAll(value, old, new), value)), SpanAttributes) AS told
INSERT INTO $TABLE (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, SpanAttributes, Duration, StatusCode)
SELECT
    Timestamp + toIntervalMillisecond($apart),
    if(told[$RID] = '', replaceOne(TraceId, old, new), lower(substring(hex(SHA256(told[$RID])), 1, 32))),
    replaceOne(SpanId, old, new),
    replaceOne(ParentSpanId, old, new),
    SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, told, Duration, StatusCode
FROM $TABLE
WHERE (SpanAttributes[$RID] != '' OR SpanName IN $batches) AND reinterpretAsUInt32(reverse(unhex(old))) <= $upto
"""
"""The first prompts again as later ones: what names a request, a page or a span gets another number."""
PER_BATCH = ("hicache.reuse.forward", "hicache.reuse.executed", "hicache.load_back.start", "hicache.load_back.done")
NUMBER, DIGITS, TRACE = "@@@@@@@@", "~", "^^"
"""Places of the number of a prompt: eight hex digits, and decimal ones before a counter; and of the request's trace."""


@dataclass
class Template:
    """Spans of one request, and of its batches, as text in which the prompt's number has its places."""

    spans: list[str]
    name: str
    seconds: list[int]
    """Seconds that occur in its times; `<0>` stands for the first of them."""

    def made(self, number: int, later: int) -> list[str]:
        """The spans for a prompt, LATER seconds after the sample's."""
        trace = hashlib.sha256(f"{self.name}-{number:08x}".encode()).hexdigest()[:32]
        text = "\n".join(self.spans).replace(TRACE, trace).replace(NUMBER, f"{number:08x}").replace(DIGITS, str(number))
        shift = number * APART_MS // 1000 + later
        for place, second in enumerate(self.seconds):
            text = text.replace(f"<{place}>", str(second + shift))
        return text.split("\n")


def sample() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A resource group without spans, and the spans, of a recording of the real engine."""
    lines = [json.loads(line) for path in SAMPLE.glob("spans-*") for line in path.read_text().splitlines()]
    return lines[-1]["resourceSpans"][0], [span for line in lines for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def told(span: dict[str, Any], key: str) -> Any:
    """The value of an attribute, as JSON has it."""
    return next((next(iter(each["value"].values())) for each in span["attributes"] if each["key"] == key), None)


def template(spans: list[dict[str, Any]], rid: str, name: str) -> Template:
    """What a request left, under another NAME."""
    own = [span for span in spans if told(span, "hicache.request.id") == rid]
    begin, end = (pick(int(span["startTimeUnixNano"]) for span in own) for pick in (min, max))
    own += [span for span in spans if span["name"] in PER_BATCH and begin <= int(span["startTimeUnixNano"]) <= end]
    seconds = sorted({int(span[key]) // 10**9 for span in own for key in ("startTimeUnixNano", "endTimeUnixNano")})
    return Template([text(span, name, seconds) for span in own], name, seconds)


def text(span: dict[str, Any], name: str, seconds: list[int]) -> str:
    """A span with places instead of what differs from prompt to prompt."""
    trace = TRACE if told(span, "hicache.request.id") is not None else NUMBER + name[0].encode().hex() + span["traceId"][10:]
    made = {**span, "traceId": trace, "spanId": NUMBER + name[0].encode().hex() + span["spanId"][10:]}
    if "parentSpanId" in span:
        made["parentSpanId"] = NUMBER + name[0].encode().hex() + span["parentSpanId"][10:]
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        second, rest = divmod(int(span[key]), 10**9)
        made[key] = f"<{seconds.index(second)}>{rest:09d}"
    made["attributes"] = [{"key": each["key"], "value": value(each["key"], each["value"], name)} for each in span["attributes"]]
    return json.dumps(made, separators=(",", ":"))


def value(key: str, old: dict[str, Any], name: str) -> dict[str, Any]:
    """A value with the prompt's number in it where it names a request, a page or a counted thing."""
    if key == "hicache.request.id":
        return {"stringValue": f"{name}-{NUMBER}"}
    if key in HASHES:
        width, whole = HASHES[key], old["stringValue"]
        return {"stringValue": "".join(NUMBER + whole[at + 8 : at + width] for at in range(0, len(whole), width))}
    if key in COUNTED:
        return {"intValue": DIGITS + str(old["intValue"])}
    if key == "hicache.nodes":
        return {"arrayValue": {"values": [{"intValue": DIGITS + str(each["intValue"])} for each in old["arrayValue"]["values"]]}}
    return old


def prompts() -> Iterator[tuple[int, list[str]]]:
    """(host, spans of one request there): each prompt is asked at one host and again at the next, and now and then not found there."""
    _, spans = sample()
    cold, stored, again = (template(spans, rid, name) for rid, name in (("cold", "cold"), ("storage", "stored"), ("cold", "again")))
    number = 0
    while True:
        number += 1
        yield number % HOSTS, cold.made(number, 0)
        yield (number + 1) % HOSTS, again.made(number, 7) if number % LOST == 0 else stored.made(number, 0)


def record(count: int, folder: Path) -> int:
    """Make a recording of about COUNT spans in FOLDER; the number of its prompts."""
    lines: list[list[str]] = [[] for _ in range(HOSTS)]
    files = [(folder / f"spans-h{host}-{100 + host}-1.jsonl").open("w") for host in range(HOSTS)]
    _, spans = sample()
    own = [span for span in spans if told(span, "hicache.request.id") is None and span["name"] not in PER_BATCH]
    for host in range(HOSTS):
        put(files[host], host, [json.dumps({**span, "spanId": f"f{host:x}{span['spanId'][2:]}"}) for span in own])
    made = number = 0
    for at, (host, spans_of) in enumerate(prompts()):
        lines[host] += spans_of
        made, number = made + len(spans_of), at // 2 + 1
        if len(lines[host]) >= LINE:
            put(files[host], host, lines[host])
            lines[host] = []
        if made >= count and at % 2:
            break
    for host in range(HOSTS):
        put(files[host], host, lines[host])
        files[host].close()
    (folder / "run.json").write_text("{}")
    return number


def grow(columns: str, prompts_in: int, times: int) -> None:
    """Copy what is there inside the database, TIMES over: other requests with other prompts, later."""
    with opened(columns) as database:
        for copy in range(1, times):
            words = {"shift": copy * prompts_in, "apart": copy * prompts_in * APART_MS, "batches": PER_BATCH, "upto": prompts_in, "hashes": tuple(HASHES)}
            database.run(filled(COPY, database.table, words))


def kept(folder: Path) -> float:
    """GiB of files in FOLDER."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**30


def put(file: Any, host: int, spans: list[str]) -> None:
    """Write one line of spans."""
    if spans:
        file.write(f'{{"resourceSpans":[{{"resource":{RESOURCES[host]},"scopeSpans":[{{"scope":{{"name":"hicachectl.tracers"}},"spans":[{",".join(spans)}]}}]}}]}}\n')


def resource(host: int) -> str:
    """The sample's resource at another host."""
    group, _ = sample()
    own = {"host.name": f"h{host}", "hicachectl.engine.id": f"h{host}:{100 + host}:1"}
    told_by = [{"key": each["key"], "value": {"stringValue": own[each["key"]]} if each["key"] in own else each["value"]} for each in group["resource"]["attributes"]]
    return json.dumps({"attributes": told_by}, separators=(",", ":"))


RESOURCES = [resource(host) for host in range(HOSTS)]


def run(*words: str) -> tuple[float, float, float, str]:
    """(wall seconds, CPU seconds, peak MiB, stdout) of `hicachectl WORDS`."""
    begin = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen([sys.executable, "-c", MAIN, *words], stdout=out, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.perf_counter() - begin
        out.seek(0)
        answer = out.read()
    if process.returncode not in (0, 1):
        sys.exit(f"exit {process.returncode}: {said.decode()[-2000:]}")
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, answer


def figure(name: str, wall: float, cpu: float, memory: float) -> Figure:
    """One figure without a target: seconds, with CPU and peak memory beside it."""
    return Figure(name, wall, None, " s", f"({cpu:.1f} s CPU, {memory:.0f} MiB at most)")


def measure(folder: Path, count: int) -> None:
    """Load, ask, explain; show each as soon as it is known."""
    columns, made = f"chdb:{folder / 'columns'}", folder / "made"
    made.mkdir()
    loaded = min(count, PIECE)
    prompts_in = record(loaded, made)
    size = kept(made)
    used = run("export", str(made), "--to", "clickhouse", "--target", columns)
    show([figure(f"{loaded:,} spans loaded: {size:.1f} GiB of lines, {kept(folder / 'columns'):.2f} GiB of columns", *used[:3])])
    shutil.rmtree(made)
    if count > loaded:
        begin = time.perf_counter()
        # In a process of its own: what this one has held counts as peak memory of every command that it starts.
        growing = get_context("spawn").Process(target=grow, args=(columns, prompts_in, count // loaded))
        growing.start()
        growing.join()
        assert growing.exitcode == 0
        print(f"{count:,} spans in the database, all but the first {loaded:,} as copies of these that it made itself in {time.perf_counter() - begin:.0f} s: {kept(folder / 'columns'):.2f} GiB of columns", flush=True)
    last = f"{(count // loaded) * prompts_in:08x}"
    for name, words in (
        ("one request explained", ("explain", "--from", columns, "--request", f"{'stored' if prompts_in % LOST else 'again'}-{last}", "-o", "json", "--fail-on", "never")),
        ("one lost request explained", ("explain", "--from", columns, "--request", "again-0000000a", "-o", "json", "--fail-on", "never")),
        ("one request shown", ("show", "--from", columns, "--request", "stored-00000007", "-o", "json")),
        ("fleet", ("fleet", "--from", columns, "-o", "json")),
    ):
        *used, answer = run(*words)
        document = json.loads(answer)
        checked = f": {document['total']['requests']:,} requests of {document['spans']:,} spans, lost {document['total']['lost']}" if name == "fleet" else ""
        show([figure(f"... {name}{checked}", *used)])
        assert document["requests" if name != "fleet" else "engines"], f"{name}: nothing found"


def main() -> None:
    """Print the figures, or that chDB is not here."""
    try:
        print(f"chdb {metadata.version('chdb')}, chdb-core {metadata.version('chdb-core')}", flush=True)
    except metadata.PackageNotFoundError:
        print("chdb is not here: nothing was measured", flush=True)
        return
    asked = [int(word.partition("=")[2]) for word in sys.argv[1:] if word.startswith("--columns=")]
    with tempfile.TemporaryDirectory(prefix="hicachectl-bench-") as name:
        measure(Path(name), asked[-1] if asked else (3_000 if quick() else 100_000))


if __name__ == "__main__":
    main()
