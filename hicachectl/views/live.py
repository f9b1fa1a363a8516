"""The live summary of `trace`, and what it says at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import set_cell_size

from hicachectl.exits import one_line
from hicachectl.recorder.attach import Attached, Begun
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
    text += _recorded(outcome.summary, outcome.folder, newest) if outcome.summary.engines else [_nothing(outcome)]
    return _said(text)


def begun(begun: Begun) -> str:
    """What is said once the tracers are on in engines that run."""
    pids = ", ".join(map(str, begun.schedulers))
    text = [*_removed(begun.removed), f"attached to {len(begun.lines)} processes, schedulers: {pids}; Ctrl-C ends it"]
    if begun.blind:
        text.append(f"not seen everywhere, because of what began before: {', '.join(map(one_line, begun.blind))}")
    return _said(text)


def ended(outcome: Attached, newest: Path | None) -> str:
    """What is said when an attach has ended."""
    text = [one_line(reason) for reason in outcome.reasons]
    if outcome.silent:
        pids = ", ".join(map(str, outcome.silent))
        text.append(f"processes {pids} did not say that they have detached: they do when they notice that nobody is there")
    if outcome.summary.engines:
        text += _recorded(outcome.summary, outcome.folder, newest)
    else:
        text.append(f"nothing was recorded in {one_line(str(outcome.folder))}")
    return _said(text)


def detached(ended: Sequence[int], removed: Sequence[int]) -> str:
    """What is said by `--detach`."""
    told = f"ended the recording of processes {', '.join(map(str, ended))}" if ended else "nothing to end: no engine is being recorded"
    return _said([*_removed(removed), told])


def _removed(pids: Sequence[int]) -> list[str]:
    return [f"removed the sockets of processes that are gone: {', '.join(map(str, pids))}"] if pids else []


def _said(text: Sequence[str]) -> str:
    return "".join(f"hicachectl: {line}\n" for line in text)


def _recorded(summary: Summary, folder: Path, newest: Path | None) -> list[str]:
    """What is in the recording, and how to read it."""
    text = [f"recorded {summary.requests} requests, {summary.spans} spans of {len(summary.engines)} engine processes in {one_line(str(folder))}"]
    if summary.findings is not None:
        text.append(f"findings: {_findings(summary.findings)}")
    if summary.unsent:
        text.append(f"{sum(summary.unsent.values())} spans did not reach the collector; the recording has them")
    run = "" if folder == newest else f" {one_line(str(folder))}"
    return [*text, f"read it with: hicachectl explain{run}"]


def _findings(levels: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{levels[level]} {level}" for level in ("error", "warning", "info") if levels.get(level)) or "none"
    )


def _nothing(outcome: Outcome) -> str:
    start = f"nothing was recorded in {one_line(str(outcome.folder))}: no SGLang scheduler with our plugin ran under the command"
    if outcome.checked.name == "present":
        return f"{start}, though its Python has the plugin: did it start an engine?"
    return f"{start}; whether its Python has the plugin could not be told: `pip install hicachectl` there"
