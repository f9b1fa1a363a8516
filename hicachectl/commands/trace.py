"""`hicachectl trace`: runs a command with the tracers on in every process that it starts."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hicachectl.exits import OperatorError, UsageError, leave
from hicachectl.options import RunDirOption
from hicachectl.recorder import screen, session
from hicachectl.store import newest
from hicachectl.views import live

if TYPE_CHECKING:
    from hicachectl.recorder.scrape import Endpoint

app = typer.Typer(add_completion=False)

CommandArgument = Annotated[
    list[str], typer.Argument(metavar="COMMAND", help="The command that starts the engine, with its arguments.")
]
OtlpOption = Annotated[
    Optional[str],
    typer.Option(
        "--otlp",
        metavar="URL",
        help="Also send spans and metrics to a collector: grpc://HOST:4317 or http://HOST:4318.",
    ),
]
MetricsOption = Annotated[
    Optional[str],
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        help="Serve metrics to Prometheus at http://127.0.0.1:PORT/metrics while COMMAND runs; ADDRESS:PORT for another address, 0 for any port.",
    ),
]


@app.command(context_settings={"allow_interspersed_args": False})
def trace(
    command: CommandArgument, run: RunDirOption = None, otlp: OtlpOption = None, metrics_port: MetricsOption = None
) -> None:
    """Run COMMAND with the tracers on in every process it starts, and record what they see.

    The recording is a folder: DIR, or a new one under $HICACHECTL_HOME (default ~/.local/state/hicachectl), which is kept below 10 GiB
    ($HICACHECTL_HOME_BYTES) by removing the oldest. COMMAND keeps its terminal, its signals and its exit code. A live summary goes to stderr.

    Example:   hicachectl trace -- python -m sglang.launch_server --model-path ... --enable-hierarchical-cache

    Example:   hicachectl trace --run ./slow -- hicachectl lab exec -- python my_engine.py

    Example:   hicachectl trace --metrics-port 9400 -- python my_engine.py
    """
    if not command[0]:
        raise UsageError("COMMAND is empty")
    if os.environ.get("HICACHECTL_OFF") == "1":
        sys.stderr.write(
            "hicachectl: HICACHECTL_OFF=1 keeps the tracers out of every process: nothing will be recorded\n"
        )
    with _endpoint(metrics_port) as endpoint:
        outcome = session.record(
            command, run=run, otlp=otlp, screen=screen.on(sys.stderr, live.lines), endpoint=endpoint
        )
    sys.stderr.write(live.ending(outcome, _newest()))
    leave(outcome.code)


@contextmanager
def _endpoint(told: str | None) -> Iterator["Endpoint | None"]:
    """The port for metrics, where one is asked for; said on stderr, because it may have been chosen here."""
    if told is None:
        yield None
        return
    from hicachectl.recorder import scrape  # noqa: PLC0415 - its server is loaded by who asks for it

    endpoint = scrape.opened(told)
    try:
        sys.stderr.write(f"hicachectl: metrics at {endpoint.url}\n")
        yield endpoint
    finally:
        endpoint.close()


def _newest() -> Path | None:
    try:
        return newest().path
    except OperatorError:
        return None
