"""The live summary of `trace`, and what it says at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import set_cell_size

from hicachectl.exits import one_line
from hicachectl.recorder.session import Outcome
from hicachectl.recorder.summary import Summary


def lines(summary: Summary, width: int | None) -> Sequence[str]:
    """The summary as one line, or two on a terminal of WIDTH columns; both cut to it."""
    waiting = max(0, summary.queued - summary.requests)
    asked = f"{summary.requests} requests" + (f" ({waiting} waiting)" if waiting else "")
    tokens = (
        f"tokens reused: device {summary.device}, host {summary.host}, storage {summary.storage};"
        f" computed {summary.computed}"
    )
    moved = f"pages written {summary.pages_written}, read {summary.pages_read}"
    found = f"; findings: {_findings(summary.findings)}" if summary.findings is not None else ""
    if width is None:
        return [f"hicachectl: so far {asked}; {tokens}; {moved}{found}"]
    first = f"hicachectl, so far: {asked}; {moved}{found}"
    return [set_cell_size(text, max(1, width - 1)).rstrip() for text in (first, tokens)]


def ending(outcome: Outcome, newest: Path | None) -> str:
    """What is said when COMMAND has ended: what was recorded, where, and how to read it. NEWEST is what RUN defaults to."""
    text = []
    if outcome.swept:
        text.append(f"stopped {outcome.swept} processes that the command had left behind")
    summary = outcome.summary
    if not summary.engines:
        text.append(_nothing(outcome))
    else:
        text.append(
            f"recorded {summary.requests} requests, {summary.spans} spans of {len(summary.engines)} engine processes"
            f" in {one_line(str(outcome.folder))}"
        )
        if summary.findings is not None:
            text.append(f"findings: {_findings(summary.findings)}")
        if summary.unsent:
            text.append(f"{sum(summary.unsent.values())} spans did not reach the collector; the recording has them")
        run = "" if outcome.folder == newest else f" {one_line(str(outcome.folder))}"
        text.append(f"read it with: hicachectl explain{run}")
    return "".join(f"hicachectl: {line}\n" for line in text)


def _findings(levels: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{levels[level]} {level}" for level in ("error", "warning", "info") if levels.get(level)) or "none"
    )


def _nothing(outcome: Outcome) -> str:
    start = f"nothing was recorded in {one_line(str(outcome.folder))}: no SGLang scheduler with our plugin ran under the command"
    if outcome.checked.name == "present":
        return f"{start}, though its Python has the plugin: did it start an engine?"
    return f"{start}; whether its Python has the plugin could not be told: `pip install hicachectl` there"
