"""`hicachectl runs`: the recordings under the home folder, and their removal."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hicachectl import store
from hicachectl.exits import OperatorError, one_line
from hicachectl.options import Output, OutputOption
from hicachectl.store import shelf
from hicachectl.views.terminal import colour, width

if TYPE_CHECKING:
    from hicachectl.store.outline import Outline

app = typer.Typer(add_completion=False)

DeleteOption = Annotated[
    Optional[list[str]],
    typer.Option("--delete", metavar="RUN", help="Remove this recording, by name or path. May be given several times."),
]
KeepOption = Annotated[
    Optional[int], typer.Option("--keep", metavar="N", min=0, help="Remove all but the newest N recordings.")
]


@app.command()
def runs(delete: DeleteOption = None, keep: KeepOption = None, output: OutputOption = Output.table) -> None:
    """List the recordings under $HICACHECTL_HOME: age, size, versions, requests; or remove some.

    A recording that is being written is never removed.

    Example:   hicachectl runs

    Example:   hicachectl runs --keep 5
    """
    removed = [store.delete(run) for run in delete or ()]
    removed += store.keep(keep) if keep is not None else []
    for path in removed:
        sys.stderr.write(f"removed {one_line(str(path))}\n")
    found = store.list_runs()
    if not found and output is not Output.json:
        sys.stderr.write(
            f"no recording under {one_line(str(store.home()))}: make one with `hicachectl trace -- COMMAND`\n"
        )
        return
    from hicachectl.views import runs as view  # noqa: PLC0415 - an empty home needs none of it

    rows = [view.Listed(run, _outline(run.path), shelf.is_in_use(run.path)) for run in found]
    now = time.time()
    if output is Output.json:
        print(view.listing_document(rows, removed, store.home(), shelf.bound(), now), end="")
    else:
        print(view.listing(rows, now, width=width(), colour=colour()), end="")


def _outline(path: Path) -> "Outline | None":
    from hicachectl.store.outline import outline  # noqa: PLC0415

    try:
        return outline(path)
    except OperatorError:
        return None
