"""`hicachectl export`: sends or converts a recording."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from hicachectl.exits import UsageError, one_line
from hicachectl.export import otlp, parquet, sending
from hicachectl.store import files, named

app = typer.Typer(add_completion=False)


class Format(str, Enum):
    """What a recording can become."""

    otlp = "otlp"
    perfetto = "perfetto"
    parquet = "parquet"
    clickhouse = "clickhouse"


RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Recordings: folders or files, '-' for stdin.")
]
ToOption = Annotated[
    Format,
    typer.Option(
        "--to",
        help="otlp: for a collector, or lines of OTLP/JSON. perfetto: Chrome's trace events for ui.perfetto.dev. parquet: a row a span. clickhouse: a column store.",
    ),
]
TargetOption = Annotated[
    Optional[str],
    typer.Option(
        "--target",
        metavar="URL|FILE",
        help="A file (default: stdout); for otlp also a collector: http://HOST:4318, grpc://HOST:4317; for clickhouse: clickhouse://HOST:8123/DATABASE or chdb:FOLDER.",
    ),
]


_WRITERS = {Format.otlp: sending.otlp_lines, Format.perfetto: sending.trace_events, Format.parquet: parquet.write}


@app.command()
def export(runs: RunsArgument, to: ToOption, target: TargetOption = None) -> None:
    """Send a recording to a collector, or convert it.

    Example:   hicachectl export RUN --to perfetto --target run.json

    Example:   hicachectl export RUN --to otlp --target http://localhost:4318

    Example:   hicachectl export RUN --to parquet --target spans.parquet

    Example:   hicachectl export RUN --to clickhouse --target chdb:./columns
    """
    sources: list[Path | str] = [run if run == files.STDIN else named(run) for run in runs]
    if to is Format.clickhouse:
        count = sending.to_columns(sources, target)
        sys.stderr.write(f"wrote {count} spans to {one_line(target or '')}\n")
        return
    if target is not None and otlp.is_collector(target):
        if to is not Format.otlp:
            raise UsageError(f"--to {to.value} writes a file: --target must be one, not {target}")
        sent, refused = sending.to_collector(sources, target)
        sys.stderr.write(
            f"sent {sent} spans to {one_line(target)}" + (f", {refused} of them refused" if refused else "") + "\n"
        )
        return
    with sending.written(target) as out:
        count = _WRITERS[to](sources, out)
    sys.stderr.write(f"wrote {count} spans" + (f" to {one_line(target)}" if target else "") + "\n")
