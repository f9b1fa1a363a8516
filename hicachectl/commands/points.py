"""`hicachectl points`: every hook point, and with a recording what it saw."""

import sys

import typer

from hicachectl import store
from hicachectl.exits import one_line
from hicachectl.options import Output, OutputOption, RunArgument
from hicachectl.views import points as view
from hicachectl.views.terminal import colour, width
from tracers.points import ALL

app = typer.Typer(add_completion=False)


@app.command()
def points(run: RunArgument = None, output: OutputOption = Output.table) -> None:
    """List every hook point and what it reads; with RUN what each saw, in each process, missing and changed ones first.

    Example:   hicachectl points

    Example:   hicachectl points ~/.local/state/hicachectl/20251124T160000.000Z
    """
    recording = store.read([run]) if run is not None else None
    ledgers = view.in_order(recording.ledgers.values()) if recording else []
    if output is Output.json:
        print(view.points_document(ALL, recording.paths if recording else [], ledgers), end="")
    elif recording is None:
        print(view.rows(ALL, width=width(), colour=colour()), end="")
    else:
        print(view.seen_rows(view.seen(ledgers), width=width(), colour=colour()), end="")
        for sentence in (sentence for ledger in ledgers for sentence in view.said(ledger)):
            sys.stderr.write(one_line(sentence) + "\n")
