"""`hicachectl demo`: the main job on this machine, and one verdict for each state."""

import os
import shutil
import sys

import typer

from hicachectl.exits import DONE, FOUND, leave
from hicachectl.options import Output, OutputOption, RunDirOption

app = typer.Typer(add_completion=False)


@app.command()
def demo(run: RunDirOption = None, output: OutputOption = Output.table) -> None:
    """Run the real engine beside a real local store, and tell created, transferred and reused apart.

    Four requests, one verdict each: the backend is created and the store not asked; the transfer is done and nothing
    reused; the prefix is reused; it is reused by a second engine. Takes two to three minutes, most of it engine starts.

    Example:   hicachectl demo

    Example:   hicachectl demo --run ./demo-run -o json
    """
    from hicachectl.diagnosis.run import diagnose  # noqa: PLC0415
    from hicachectl.lab import showing  # noqa: PLC0415
    from hicachectl.recorder import folder as folders  # noqa: PLC0415
    from hicachectl.store import read  # noqa: PLC0415
    from hicachectl.views import demo as view  # noqa: PLC0415

    folder = folders.make(run)
    showing.record(folder, _say)
    rows = showing.judged(diagnose(read([folder])))
    if output is Output.json:
        sys.stdout.write(view.as_json(folder, rows))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        sys.stdout.write(view.as_text(folder, rows, width=_width(), colour=colour))
    leave(DONE if all(row.as_expected for row in rows) else FOUND)


def _say(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


