"""What `hicachectl explain` says of a recording, and the sums that must hold for every request."""

import json
from pathlib import Path
from typing import Any

import invoke


def explained(run: Path, *words: str) -> dict[str, Any]:
    """The document of `explain RUN -o json`."""
    done = invoke.hicachectl("explain", str(run), "-o", "json", "--fail-on", "never", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def request(document: dict[str, Any], rid: str, attempt: int = 0) -> dict[str, Any]:
    """The row of one request."""
    return next(row for row in document["requests"] if row["rid"] == rid and row["attempt"] == attempt)


def reused(row: dict[str, Any]) -> int:
    """Tokens reused from any tier."""
    return sum(row["tokens"]["reused"].values())


def adds_up(row: dict[str, Any]) -> bool:
    """The two sums of the token account, with no part below 0."""
    tokens = row["tokens"]
    lost = sum(loss["tokens"] for loss in row["lost"])
    parts = [*tokens["reused"].values(), tokens["computed"], tokens["new"], tokens["tail"], lost]
    whole = row["prompt_tokens"] == reused(row) + tokens["computed"]
    return whole and tokens["computed"] == lost + tokens["new"] + tokens["tail"] and min(parts) >= 0
