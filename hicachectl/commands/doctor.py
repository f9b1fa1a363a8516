"""`hicachectl doctor`: this machine and this configuration, before an engine is started."""

import os
import shutil
import sys
from typing import Annotated, Optional

import typer

from hicachectl.checks import listed, scene
from hicachectl.checks.result import Level, Result
from hicachectl.exits import FOUND, UsageError, leave
from hicachectl.options import LONGEST_S, Output, OutputOption
from hicachectl.views import doctor as view

app = typer.Typer(add_completion=False)

CALL_TIMEOUT_S = 10.0

CommandArgument = Annotated[
    Optional[list[str]],
    typer.Argument(
        metavar="[-- COMMAND...]",
        help="The command that would start the engine, as typed; variables may stand in front.",
        show_default=False,
    ),
]
ServerOption = Annotated[
    Optional[str], typer.Option("--server", metavar="URL", help="A running SGLang server instead of a command.")
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Do not ask SGLang's own parser, which imports SGLang and takes seconds.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", min=0.1, max=LONGEST_S, help="Seconds that one call of the store may take.")
]


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: CommandArgument = None,
    server: ServerOption = None,
    quick: QuickOption = False,
    timeout: TimeoutOption = CALL_TIMEOUT_S,
    output: OutputOption = Output.table,
) -> None:
    """Say what would stop the storage backend, before the engine is started; exit 1 on an error.

    Example:   hicachectl doctor -- python -m sglang.launch_server --model-path ... --hicache-storage-backend mooncake

    Example:   hicachectl doctor --server http://127.0.0.1:30000 -o json

    Example:   MOONCAKE_MASTER=127.0.0.1:50051 hicachectl doctor
    """
    if command and server:
        raise UsageError("give a command after `--`, or --server, not both")
    if server is not None:
        subject = scene.of_server(server, os.environ, sys.executable)
    else:
        subject = scene.of_command(command or [], os.environ, sys.executable)
    if subject.words is not None and not quick:
        sys.stderr.write("hicachectl: asking SGLang's own parser, which takes seconds (--quick leaves it out)\n")
    seen = scene.collect(subject, ask_parser=not quick, timeout=timeout)
    found = listed.run(seen)
    if output is Output.json:
        print(view.as_json(seen, found), end="")
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(
            view.as_text(seen, found, width=width, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")),
            end="",
        )
    sys.stdout.flush()
    _end([result for _, result in found])


def _end(found: list[Result]) -> None:
    """The verdict on stderr, and the exit code."""
    counts = {level: sum(result.level is level for result in found) for level in (Level.error, Level.warning)}
    sys.stderr.write(f"hicachectl: errors: {counts[Level.error]}, warnings: {counts[Level.warning]}\n")
    if counts[Level.error]:
        leave(FOUND)
