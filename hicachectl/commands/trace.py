"""`hicachectl trace`: runs a command with the tracers on in every process that it starts, or switches them on in engines that run."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from typer.core import TyperCommand

from hicachectl.exits import OperatorError, UsageError, leave
from hicachectl.options import RunDirOption
from hicachectl.recorder import attach as attaching
from hicachectl.recorder import screen, session, switchboard
from hicachectl.store import newest
from hicachectl.views import live

if TYPE_CHECKING:
    from hicachectl.recorder.scrape import Endpoint

app = typer.Typer(add_completion=False)

UNNAMED = "-"
"""Stands for the process where `--detach` names none."""
VALUED = frozenset({"--run", "--otlp", "--attach", "--detach", "--for", "--metrics-port"})


class Trace(TyperCommand):
    """The command, whose `--detach` may stand without a process."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the process that was left out: that of `--attach`, else all."""
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            if args[at] == "--detach" and (at + 1 == len(args) or args[at + 1].startswith("-")):
                args = [*args[: at + 1], UNNAMED, *args[at + 1 :]]
            at += 2 if args[at] in VALUED else 1
        return super().parse_args(ctx, args)


CommandArgument = Annotated[
    Optional[list[str]], typer.Argument(metavar="COMMAND", help="The command that starts the engine, with its arguments.", show_default=False)
]
AttachOption = Annotated[
    Optional[str],
    typer.Option("--attach", metavar="PID|all", help="Record engines that run already and were started with HICACHECTL_ATTACH=1: a scheduler, a server with its schedulers, or all of this user."),
]
DetachOption = Annotated[
    Optional[str],
    typer.Option("--detach", metavar="[PID|all]", help="End the recording that an --attach elsewhere began; all where no process is named."),
]
ForOption = Annotated[Optional[float], typer.Option("--for", metavar="SECONDS", help="With --attach: end the recording after so long.", show_default=False)]
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


@app.command(cls=Trace, context_settings={"allow_interspersed_args": False})
def trace(
    command: CommandArgument = None,
    run: RunDirOption = None,
    otlp: OtlpOption = None,
    metrics_port: MetricsOption = None,
    attach: AttachOption = None,
    detach: DetachOption = None,
    seconds: ForOption = None,
) -> None:
    """Run COMMAND with the tracers on in every process it starts, and record what they see; or record engines that run already.

    The recording is a folder: DIR, or a new one under $HICACHECTL_HOME (default ~/.local/state/hicachectl), which is kept below 10 GiB
    ($HICACHECTL_HOME_BYTES) by removing the oldest. COMMAND keeps its terminal, its signals and its exit code. A live summary goes to stderr.

    --attach lasts until Ctrl-C (exit 130), --for, --detach or the end of the engines (exit 0), and leaves them as they were.

    Example:   hicachectl trace -- python -m sglang.launch_server --model-path ... --enable-hierarchical-cache

    Example:   hicachectl trace --run ./slow -- hicachectl lab exec -- python my_engine.py

    Example:   hicachectl trace --metrics-port 9400 -- python my_engine.py

    Example:   hicachectl trace --attach 4711 --for 60

    Example:   hicachectl trace --detach all
    """
    asked = [name for name, value in (("COMMAND", command), ("--attach", attach or detach)) if value]
    if len(asked) != 1:
        raise UsageError("COMMAND and --attach or --detach exclude each other" if asked else "COMMAND is missing, or --attach or --detach with a process id or 'all'")
    if seconds is not None and (attach is None or detach is not None or not 0 < seconds < float("inf")):
        raise UsageError("--for takes a number of seconds above 0, and belongs to --attach")
    if detach is not None:
        if any(each is not None for each in (run, otlp, metrics_port)) or (attach is not None and detach != UNNAMED):
            raise UsageError("--detach takes no other option: it ends a recording that was begun elsewhere")
        _detach(attach or (switchboard.ALL if detach == UNNAMED else detach))
    elif attach is not None:
        with _endpoint(metrics_port) as endpoint:
            outcome = _attach(attach, run, otlp, seconds, endpoint)
        sys.stderr.write(live.ended(outcome, _newest()))
        leave(outcome.code)
    elif command:
        _run(command, run, otlp, metrics_port)


def _attach(target: str, run: Path | None, otlp: str | None, seconds: float | None, endpoint: "Endpoint | None") -> attaching.Attached:
    def said(begun: attaching.Begun) -> None:
        sys.stderr.write(live.begun(begun))

    shown = screen.on(sys.stderr, live.lines)
    return attaching.record(target, run=run, otlp=otlp, seconds=seconds, screen=shown, said=said, endpoint=endpoint)


def _detach(target: str) -> None:
    ended, removed = attaching.detach(target)
    sys.stderr.write(live.detached(ended, removed))


def _run(command: list[str], run: Path | None, otlp: str | None, metrics_port: str | None) -> None:
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
