"""`hicachectl lab`: a local store, a tiny model, and a command run beside them."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from hicachectl.exits import leave
from hicachectl.lab import beside, environment, model, store
from hicachectl.options import Output, OutputOption

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="A local store and a tiny model, to run the real engine on this machine.\n\nExample:   hicachectl lab exec -- python my_engine.py",
)

SegmentOption = Annotated[
    int,
    typer.Option(
        "--segment", metavar="BYTES", min=0, help="Memory of the store's own client; 0: only engines own memory."
    ),
]


@app.command("store")
def run_store(segment: SegmentOption = store.SEGMENT, output: OutputOption = Output.table) -> None:
    """Keep a store running until Ctrl-C; print what `lab exec` would give an engine, as lines for a shell.

    Example:   hicachectl lab store > store.env   and in another terminal   . ./store.env && python my_engine.py
    """
    signal.signal(signal.SIGTERM, _end)
    with store.running(segment) as running:
        folder = running.keeper.scratch / "model"
        model.write(folder)
        settings = environment.for_command({}, running.environment(), folder)
        if output is Output.json:
            document = {
                "schema": "hicachectl/lab-store/1",
                "master": running.master,
                "http": running.http,
                "segment": segment,
                "environment": settings,
            }
            print(json.dumps(document), flush=True)
        else:
            print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in settings.items()), flush=True)
        sys.stderr.write(
            f"hicachectl: store {running.master} is running, its admin side at {running.http}; Ctrl-C ends it\n"
        )
        while True:
            signal.pause()


@app.command("model")
def write_model(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write; made where absent.")],
    output: OutputOption = Output.table,
) -> None:
    """Write the tiny model: one file that SGLang takes for a Llama, weights made up at load.

    Example:   hicachectl lab model /tmp/tiny
    """
    path = model.write(folder)
    document = {"schema": "hicachectl/lab-model/1", "model": str(folder.absolute()), "file": str(path.absolute())}
    print(json.dumps(document) if output is Output.json else path)


@app.command("exec", context_settings={"allow_interspersed_args": False})
def run_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="What to run, after `--`.", show_default=False)
    ],
    segment: SegmentOption = store.SEGMENT,
) -> None:
    """Run COMMAND beside a fresh store, with stand-ins for the GPU where there is none; everything ends with it.

    Example:   hicachectl lab exec -- python my_engine.py
    """
    for sentence in environment.remarks(os.environ):
        sys.stderr.write(f"hicachectl: {sentence}\n")
    leave(beside.run(command, segment))


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    leave(128 + number)
