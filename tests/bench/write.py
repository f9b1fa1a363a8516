"""What the writer does with a span, against the SDK's own JSON file exporter.

Run alone: python -m tests.bench.write
"""

import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.bench import otel
from tests.bench.pairs import Figure, cpu_ns, middle, pin, quick, show
from tests.bench.record import KEYS
from tracers import encode
from tracers import vocabulary as v
from tracers.detail import PromptKeys
from tracers.encode import Encoder, Shape
from tracers.record import Record

EXPORTER = "opentelemetry-exporter-otlp-json-file"
NEEDED = (EXPORTER, "opentelemetry-exporter-otlp-json-common", "opentelemetry-exporter-otlp-common", "opentelemetry-proto-json")
BATCH = 512


def records(count: int) -> list[Record]:
    """Records of one point, whose values differ."""
    now = time.time_ns()
    return [
        ("p", now + n, now + n + 5000, n + 1, n, f"request-{n // 47}", (123, "MainThread"), ("ok", n, n * 3, f"R{n % 30:02d}", f"message {n}", n * 0.37, n % 9, n // 7), None)
        for n in range(count)
    ]


def ours(folder: Path) -> Callable[[int], None]:
    """Encode a batch and append it to a file, so many times."""
    encoder = Encoder({"p": Shape(v.FLUSH, KEYS)}, lambda *_: sys.exit("a record could not be encoded"), lambda _late: None)
    encoder.rename("host:1:2")
    batch = records(BATCH)
    file = (folder / "ours.jsonl").open("wb", buffering=0)
    resource = ",".join(encode.attribute(key, f"value of {key}") for key in v.RESOURCE)

    def work(times: int) -> None:
        for _ in range(times):
            file.write(encode.line(resource, '{"name":"s"}', encoder.spans_of(batch)))

    work(1)
    written = json.loads((folder / "ours.jsonl").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [len(span["attributes"]) for span in written] == [11] * BATCH
    return work


def theirs(folder: Path) -> tuple[str, Callable[[int], None]]:
    """The same spans through the SDK's JSON file exporter, or through `to_json` where it cannot be had; its name with it."""
    keeping, provider = otel.Keeping(), TracerProvider(resource=Resource({key: f"value of {key}" for key in v.RESOURCE}))
    provider.add_span_processor(SimpleSpanProcessor(keeping))
    tracer = provider.get_tracer("s")
    for _, start, end, _, _, rid, (tid, thread), values, _ in records(BATCH):
        attributes = {"thread.id": tid, "thread.name": thread, v.RID: rid, **dict(zip(KEYS, values, strict=True))}
        tracer.start_span(v.FLUSH, start_time=start, attributes=attributes).end(end)
    spans = keeping.spans
    exporter = _exporter(folder)
    if exporter is not None:
        return EXPORTER, lambda times: [exporter.export(spans) for _ in range(times)] and None
    file = (folder / "theirs.jsonl").open("w")
    return "span.to_json of the SDK", lambda times: [file.write("\n".join(span.to_json(indent=None) for span in spans)) for _ in range(times)] and None


def _exporter(folder: Path) -> Any:
    try:
        return _imported(folder)
    except ImportError:
        # Beside the environment, not in it: its release is tied to one of the SDK.
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "site"), *NEEDED], capture_output=True, check=False)
        sys.path.append(str(folder / "site"))
        try:
            return _imported(folder) if done.returncode == 0 else None
        except ImportError:
            return None


def _imported(folder: Path) -> Any:
    return importlib.import_module("opentelemetry.exporter.otlp.json.file").FileSpanExporter(str(folder / "theirs.jsonl"))


def prompt() -> list[Figure]:
    """What the writer works out for a long prompt."""
    detail = PromptKeys(list(range(131_072)), 64, bigram=False)
    began = time.thread_time()
    detail.pairs()
    return [Figure("page keys and fingerprint of a prompt of 131,072 tokens, CPU", (time.thread_time() - began) * 1000, None, " ms")]


def main() -> None:
    """Print the figures."""
    pin()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mine, (yardstick, other) = ours(folder), theirs(folder)
        speed, own = [], []
        for _ in range(3 if quick() else 25):
            before = cpu_ns(other, 1)
            took = cpu_ns(mine, 10)
            speed.append((before + cpu_ns(other, 1)) / 2 / took)
            own.append(took / BATCH)
        median, spread = middle(speed)
        show(
            [
                Figure(f"writing OTLP/JSON, spans a second, of {yardstick}", median, 15, " x", spread, at_least=True),
                Figure("... CPU of a span in the writer thread", middle(own)[0] / 1000, None, " us"),
                *prompt(),
            ]
        )


if __name__ == "__main__":
    main()
