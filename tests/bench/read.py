"""Reading a recording: `explain` against a bare parse of the same file, by CPU time and memory.

Run alone: python -m tests.bench.read [SPANS]
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.pairs import Figure, quick, show
from tests.bench.start import COMPILED
from tracers import vocabulary as v

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "samples" / "versions" / "0.5.14"
IDLE = "import gc, sys, orjson"
PARSE = "import gc, sys, orjson; gc.disable()\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)"
GROUP = """
import gc, sys, orjson
gc.disable()
traces = {}
for line in open(sys.argv[1], 'rb'):
    for group in orjson.loads(line)['resourceSpans']:
        for scope in group['scopeSpans']:
            for span in scope['spans']:
                traces.setdefault(span['traceId'], []).append(span)
"""
EXPLAIN = "import sys; from hicachectl.cli import main; sys.argv = ['hicachectl', 'explain', sys.argv[1], '-o', 'json', '--fail-on', 'never']; main()"
READ = "import sys; from pathlib import Path; from hicachectl import store; found = store.read([Path(sys.argv[1])])\nfor span in found.spans: span.attributes"
ONE = "import sys; from hicachectl.cli import main; sys.argv = ['hicachectl', sys.argv[1], sys.argv[2], '--request', sys.argv[3], '-o', 'json']; main()"
START = "import os, sys; os.environ['HICACHECTL_HOME'] = '/nowhere'; from hicachectl.cli import main; sys.argv = ['hicachectl', 'runs']; main()"
BATCH = 512
SERVING = (v.FORWARD, v.EXECUTED, v.LOAD_BACK_START, v.LOAD_BACK_DONE)
"""Spans without a request id that serving makes."""
HASHED = {v.PAGE_KEYS: v.PAGE_KEY_DIGITS, v.PROMPT_PAGE_KEYS: v.PAGE_KEY_DIGITS, v.FINGERPRINT: v.FINGERPRINT_DIGITS}
COUNTED = (v.BATCH, v.OPERATION, v.NODE)


def sample() -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """(resource group without spans, spans of the process, spans that two requests make) of a recording of the real engine.

    The first request is cold and its pages are written, the second asks the same and takes them from the store.
    """
    lines = [json.loads(line) for path in SAMPLE.glob("spans-*") for line in path.read_text().splitlines()]
    spans = [span for line in lines for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    serving = [span for span in spans if _rid(span) or span["name"] in SERVING]
    return lines[-1]["resourceSpans"][0], [span for span in spans if span not in serving], serving


def _rid(span: dict[str, Any]) -> str:
    return next((each["value"]["stringValue"] for each in span["attributes"] if each["key"] == v.RID), "")


def grown(count: int) -> Iterator[dict[str, Any]]:
    """COUNT spans: those of the process once, then the same two requests again and again, a millisecond later each time.

    Each time under other request ids, with other prompts (page keys and fingerprints), batches, operations and nodes.
    """
    _, process, serving = sample()
    yield from process
    left, turn = count - len(process), 0
    while left > 0:
        turn += 1
        ids = {span["spanId"]: f"{turn:08x}{index:08x}" for index, span in enumerate(serving)}
        yield from (_again(span, turn, ids) for span in serving[:left])
        left -= len(serving)


def _again(span: dict[str, Any], turn: int, ids: dict[str, str]) -> dict[str, Any]:
    made = {**span, "traceId": f"{turn:08x}{span['traceId'][8:]}", "spanId": ids[span["spanId"]]}
    if "parentSpanId" in span:
        made["parentSpanId"] = ids.get(span["parentSpanId"], span["parentSpanId"])
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        made[key] = str(int(span[key]) + turn * 1_000_000)
    made["attributes"] = [{"key": each["key"], "value": _other(each["key"], each["value"], turn)} for each in span["attributes"]]
    return made


def _other(key: str, value: dict[str, Any], turn: int) -> dict[str, Any]:
    """A value of the sample as it would be in another turn."""
    if key == v.RID:
        return {"stringValue": f"{value['stringValue']}-{turn}"}
    if key in HASHED:
        text, digits = value["stringValue"], HASHED[key]
        return {"stringValue": "".join(f"{turn:08x}{text[place + 8 : place + digits]}" for place in range(0, len(text), digits))}
    if key in COUNTED:
        return {"intValue": str(int(value["intValue"]) + 10 * turn)}
    if key == v.NODES:
        return {"arrayValue": {"values": [_other(v.NODE, each, turn) for each in value["arrayValue"]["values"]]}}
    return value


def write(folder: Path, count: int) -> Path:
    """A recording of COUNT spans; the file that holds them."""
    group, *_ = sample()
    folder.mkdir()
    (folder / "run.json").write_text((SAMPLE / "run.json").read_text())
    path = folder / "spans-h-1-1.jsonl"
    with path.open("w") as file:
        batch: list[dict[str, Any]] = []
        for span in grown(count):
            batch.append(span)
            if len(batch) == BATCH:
                file.write(_line(group, batch))
                batch = []
        file.write(_line(group, batch) if batch else "")
    return path


def _line(group: dict[str, Any], batch: list[dict[str, Any]]) -> str:
    scope = {**group["scopeSpans"][0], "spans": batch}
    return json.dumps({"resourceSpans": [{**group, "scopeSpans": [scope]}]}, separators=(",", ":")) + "\n"


def run(script: str, *words: str) -> tuple[float, float]:
    """(CPU seconds, peak MiB) of a Python that runs SCRIPT."""
    code = f"import resource, sys\nsys.path.insert(0, {str(ROOT)!r})\n{script}"
    env = {**os.environ, **COMPILED}
    with subprocess.Popen([sys.executable, "-c", code, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"exit {process.returncode}: {said.decode()[-2000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(folder: Path, count: int) -> tuple[list[Figure], float]:
    """The figures of a recording of COUNT spans, and the CPU seconds of `explain` for each million."""
    file = write(folder / str(count), count)
    size = file.stat().st_size
    begin, base, idle = (min(run(script, str(SAMPLE))[0] for _ in range(5)) for script in (EXPLAIN, READ, IDLE))
    speed, alone, explained, memory = [], [], [], 0.0
    for _ in range(1 if quick() or count >= 1_000_000 else 3):
        before, _ = run(PARSE, str(file))
        took, memory = run(EXPLAIN, str(file.parent))
        loaded, _ = run(READ, str(file.parent))
        after, _ = run(PARSE, str(file))
        parsed = (before + after) / 2 - idle
        alone.append(parsed / (loaded - base))
        speed.append(parsed / max(took - begin, 1e-9))
        explained.append(took - begin)
    _, most = run(GROUP, str(file))
    made, _ = run(ONE, "show", str(file.parent), "storage-7")
    start = min(run(START)[0] for _ in range(5))
    shown, told = (min(run(ONE, command, str(file.parent), "storage-7")[0] for _ in range(5)) - start for command in ("show", "explain"))
    name = f"{count:,} spans ({size >> 20} MiB)"
    figures = [
        Figure(f"explain of {name}: speed of a bare orjson parse", sorted(speed)[len(speed) // 2], 1, " x", f"({min(explained):.1f} s CPU)", at_least=True),
        Figure("... its reading alone, every attribute decoded", sorted(alone)[len(alone) // 2], 2.5, " x", at_least=True),
        Figure("... peak memory, of orjson with spans grouped by trace", memory / most, 0.1, " x", f"({memory:.0f} of {most:.0f} MiB)"),
        Figure("... one request of it shown from the index, beyond the start of a command", shown * 1000, 100, " ms"),
        Figure("... one request of it explained from the index, beyond the start", told * 1000, 100, " ms"),
        Figure("... making the index, by the first question for one request, CPU", made - start, None, " s"),
    ]
    file.unlink()
    return figures, min(explained) / count * 1e6


def main() -> None:
    """Print the figures."""
    asked = [int(word) for word in sys.argv[1:] if word.isdigit()]
    counts = asked or ([3_000, 10_000] if quick() else [10_000, 100_000])
    rates = {}
    with tempfile.TemporaryDirectory() as name:
        for count in counts:
            figures, rates[count] = measure(Path(name), count)
            show(figures)
    if len(rates) > 1:
        show([Figure(f"explain, CPU of a span at {max(rates):,} spans over that at {min(rates):,}", rates[max(rates)] / rates[min(rates)], 1.25, " x")])


if __name__ == "__main__":
    main()
