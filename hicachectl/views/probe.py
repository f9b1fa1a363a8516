"""The report of a probe as text and as its JSON document."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hicachectl.mooncake.probe.report import Report, StepResult
from hicachectl.views import palette
from hicachectl.views.table import cell, document, drawn, size

KEYS_SHOWN = 5
COLUMNS = ("step", "", "code", "", "n", "bytes", "p50 ms", "p99 ms", "GB/s")


def as_json(report: Report) -> str:
    """The one JSON document."""
    return document("probe", report.document())


def as_text(report: Report, *, width: int | None, colour: bool) -> str:
    """The report for a reader: the store, a row a step, what went wrong and what to do, and what the probe did to the store."""
    parts: list[RenderableType] = [_store(report.store), Text(), _steps(report.steps)]
    parts += _wrong(report.failed)
    if report.bench:
        parts += _section(
            "bandwidth, fastest round",
            [
                f"{row.step}: {row.gb_per_s:.2f} GB/s, bare loop {row.bare_gb_per_s:.2f} GB/s ({row.ratio:.0%})"
                for row in report.bench
            ],
        )
    parts += _section("not run", _not_run(report))
    parts += _section("master's operations", _operations(report.store))
    parts += _section("side effects", report.side_effects)
    parts += _section("left behind", _left(report.left_behind), palette.ERROR)
    parts += _section("the client's log", report.log, palette.FAINT)
    return drawn(Group(*parts), width=width, colour=colour)


def _store(store: Mapping[str, Any]) -> Table:
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(style=palette.HEADING, no_wrap=True)
    rows.add_column(overflow="fold")
    for name, text, style in _facts(store):
        if text:
            rows.add_row(name, cell(text, style))
    return rows


def _facts(store: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    client, transport, gauges = (
        store.get("client"),
        store.get("transport"),
        store.get("gauges_before") or store.get("gauges"),
    )
    yield "master", str(store.get("master", "")), ""
    ready = {True: "serves", False: "does not serve", None: ""}[store["service_ready"]]
    found = f" ({store['admin_found']})" if "admin_found" in store else ""
    yield (
        "admin port",
        f"{store['admin']}{found} {ready}" if store["admin"] else "",
        palette.ERROR if store["service_ready"] is False else "",
    )
    yield "", str(store.get("problem", "")), palette.WARNING
    if gauges:
        used, capacity = gauges["used_bytes"], gauges["capacity_bytes"]
        full = f" ({used / capacity:.1%})" if capacity else ""
        yield (
            "memory",
            f"{size(used)} of {size(capacity)}{full} in {_many(gauges['segments'], 'segment')}, {_many(gauges['keys'], 'key')}",
            "",
        )
    if client:
        lends = f"lends {size(client['segment_size'])}" if client["segment_size"] else "lends nothing"
        yield (
            "client",
            f"Mooncake {client['release'] or 'of unknown release'} at {client['local_hostname']}, {lends}",
            "",
        )
    if transport:
        yield "transport", f"{transport['in_use'] or 'unknown'} (asked for {transport['asked']})", ""
        yield "", transport["remark"], palette.WARNING
    if "counters" in store:
        yield "counters", ", ".join(f"{name} {value}" for name, value in store["counters"].items() if value), ""


def _steps(steps: list[StepResult]) -> Table:
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=palette.HEADING)
    for index, heading in enumerate(COLUMNS):
        rows.add_column(heading, justify="right" if index in {2, 4, 5, 6, 7, 8} else "left", no_wrap=True)
    for step in steps:
        mark = Text("ok", palette.GOOD) if step.ok else Text("failed", palette.ERROR)
        moved = size(step.bytes) if step.bytes else None
        speed = f"{step.gb_per_s:.3f}" if step.gb_per_s is not None else None
        times = [None if value is None else f"{value:.2f}" for value in (step.p50_ms, step.p99_ms)]
        rows.add_row(
            *(cell(value) for value in (step.name, mark, step.code, step.code_name, step.n, moved, *times, speed))
        )
    return rows


def _wrong(failed: list[StepResult]) -> list[RenderableType]:
    """What failed, the same story told once."""
    told: dict[tuple[str, str], list[str]] = {}
    for step in failed:
        told.setdefault((step.meaning, step.next), []).append(
            f"{step.name} ({step.code_name if step.code is None else step.code})"
        )
    parts: list[RenderableType] = []
    for (meaning, following), names in told.items():
        parts += [Text(), cell(", ".join(names), palette.ERROR), _indented(meaning)]
        parts += [_indented(f"Next: {following}")] if following else []
    return parts


def _section(title: str, lines: list[str], style: str = "") -> list[RenderableType]:
    if not lines:
        return []
    return [Text(), cell(title, palette.HEADING), *(_indented(line, style) for line in lines)]


def _indented(line: str, style: str = "") -> Padding:
    return Padding(cell(line, style), (0, 0, 0, 2))


def _not_run(report: Report) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in report.not_run:
        by_reason.setdefault(row.why, []).append(row.name)
    return [f"{', '.join(names)}: {why}" for why, names in by_reason.items()]


def _operations(store: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['operation']}: {row['succeeded']} succeeded, {row['failed']} failed"
        for row in store.get("operations", [])
    ]


def _left(keys: list[str]) -> list[str]:
    more = [f"and {len(keys) - KEYS_SHOWN} more (all of them in -o json)"] if len(keys) > KEYS_SHOWN else []
    return [*keys[:KEYS_SHOWN], *more]


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
