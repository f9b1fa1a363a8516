"""`hicachectl explain`: the verdict on each request of a recording."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from hicachectl.exits import DONE, FOUND, UnreachableError, UsageError, leave, one_line
from hicachectl.options import FailOn, FailOnOption, Output, OutputOption, RequestOption, RunsArgument

app = typer.Typer(add_completion=False)

CodeFilter = Annotated[Optional[str], typer.Option("--code", metavar="CODE", help="Only requests and findings with this code.")]


@app.command()
def explain(
    runs: RunsArgument = None,
    request: RequestOption = None,
    code: CodeFilter = None,
    fail_on: FailOnOption = FailOn.error,
    output: OutputOption = Output.table,
) -> None:
    """Say on which rung each request's prefix stopped, count its tokens, and name the cause with evidence.

    Recordings of several engines and hosts may be named together. Exits 1 when a finding has the level of --fail-on or a
    higher one, and 0 otherwise.

    Example:   hicachectl explain

    Example:   hicachectl explain ./run-a ./run-b --request 4f2a -o json
    """
    # Imported here so that other commands and --help pay for none of it.
    from hicachectl.diagnosis.codes import ALL, canonical  # noqa: PLC0415
    from hicachectl.diagnosis.run import diagnose, select  # noqa: PLC0415
    from hicachectl.store import read  # noqa: PLC0415
    from hicachectl.views import explain as view  # noqa: PLC0415

    if code is not None and canonical(code) not in ALL:
        raise UsageError(f"--code {one_line(code)}: no finding has this code; `hicachectl code` lists them")
    found = diagnose(read(_named(runs)))
    if not found.requests and not any(engine.scheduler for engine in found.world.engines.values()):
        raise UnreachableError(
            f"no engine left anything in {', '.join(found.world.recording.paths)}: its command started none, or the hicachectl plugin is not in its Python"
        )
    requests, findings = select(found, request, code)
    if request is not None and not requests:
        raise UsageError(f"no request id of {', '.join(found.world.recording.paths)} is or begins with {one_line(request)}: see `hicachectl show`")
    if output is Output.json:
        sys.stdout.write(view.as_json(found, requests, findings))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        sys.stdout.write(view.as_text(found, requests, findings, width=width, colour=colour))
    levels = {each.level for each in findings}
    leave(FOUND if levels & _failing(fail_on) else DONE)


def _named(runs: list[str] | None) -> Sequence[str]:
    return runs or ()


def _failing(fail_on: FailOn) -> set[str]:
    """Levels at or above the threshold."""
    levels = ["error", "warning", "info"]
    return set() if fail_on is FailOn.never else set(levels[: levels.index(fail_on.value) + 1])
