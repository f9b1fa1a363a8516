"""Cuts a recording of the real engine down to a few requests: python tests/samples/trim.py RUN FOLDER RID...

Whole spans are kept or left out, none is changed: of the process, and of the requests that are named. Ledgers count what is kept.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any


def trim(run: Path, folder: Path, rids: set[str]) -> None:
    """Write into FOLDER the ledgers of RUN, and those of its spans that belong to the process or to RIDS."""
    folder.mkdir(parents=True)
    shutil.copy(run / "run.json", folder)
    for path in run.glob("ledger-*.json"):
        ledger = json.loads(path.read_text())
        lines = _lines(run / f"{path.stem.replace('ledger', 'spans', 1)}.jsonl", rids)
        if lines:
            (folder / f"{path.stem.replace('ledger', 'spans', 1)}.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        ledger["written"] = sum(len(line["resourceSpans"][0]["scopeSpans"][0]["spans"]) for line in lines)
        (folder / path.name).write_text(json.dumps(ledger, indent=1) + "\n")


def _lines(path: Path, rids: set[str]) -> list[dict[str, Any]]:
    texts = path.read_text().splitlines() if path.exists() else []
    return [line for text in texts if (line := _line(json.loads(text), rids)) is not None]


def _line(line: dict[str, Any], rids: set[str]) -> dict[str, Any] | None:
    scope = line["resourceSpans"][0]["scopeSpans"][0]
    scope["spans"] = [span for span in scope["spans"] if _wanted(span, rids)]
    return line if scope["spans"] else None


def _wanted(span: dict[str, Any], rids: set[str]) -> bool:
    rid = next((each["value"]["stringValue"] for each in span["attributes"] if each["key"] == "hicache.request.id"), None)
    return rid is None or rid in rids


if __name__ == "__main__":
    trim(Path(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:]))
