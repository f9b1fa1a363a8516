"""`hicachectl fleet`: many hosts and ranks at a glance, out of a column store."""

import sys

import typer

from hicachectl.exits import UsageError, one_line
from hicachectl.options import FromOption, Output, OutputOption, RunsArgument
from hicachectl.views.terminal import colour, width

app = typer.Typer(add_completion=False)


@app.command()
def fleet(runs: RunsArgument = None, from_: FromOption = None, output: OutputOption = Output.table) -> None:
    """Say of many hosts and ranks what they served and lost, what is slow, which ranks lag, and which servers cannot share and why.

    Reads a column store, or recordings, which are loaded into one for the time being (needs the extra `chdb`). Losses are worked out
    request by request with the rules of `explain`, some thousand requests at a time.

    Example:   hicachectl fleet --from clickhouse://localhost:8123/otel

    Example:   hicachectl fleet ./run-a ./run-b -o json
    """
    # Imported here so that other commands and --help pay for none of it.
    from hicachectl import store  # noqa: PLC0415
    from hicachectl.fleet.report import fleet as told  # noqa: PLC0415
    from hicachectl.store import columns, files  # noqa: PLC0415
    from hicachectl.store.columns.source import of_recordings  # noqa: PLC0415
    from hicachectl.views import fleet as view  # noqa: PLC0415

    if runs and from_ is not None:
        raise UsageError("RUN and --from exclude each other: --from names all that is read")
    if from_ is not None:
        opened = columns.opened(from_)
    else:
        named = [run if run == files.STDIN else store.named(run) for run in runs or [str(store.newest().path)]]
        opened = of_recordings(named, ", ".join(str(run) for run in named))
    with opened as database:
        found = told(database)
    if output is Output.json:
        sys.stdout.write(view.as_json(found))
        return
    for reason in found.recording.incomplete:
        sys.stderr.write(f"incomplete: {one_line(reason)}\n")
    sys.stdout.write(view.as_text(found, width=width(), colour=colour()))
