"""The root app: a table of commands, each imported only when it is asked for."""

import importlib
from typing import Annotated, Any, NamedTuple, Optional

import typer
from typer.core import TyperCommand, TyperGroup

from hicachectl import __version__
from hicachectl.exits import translated


class CommandRow(NamedTuple):
    """One command: its name, the module that holds its `app`, and the first line of its help, so that the list needs no module."""

    name: str
    module: str
    line: str


COMMANDS: tuple[CommandRow, ...] = (
    CommandRow("demo", "hicachectl.commands.demo", "Run the real engine beside a real local store, and tell created, transferred and reused apart."),
    CommandRow("trace", "hicachectl.commands.trace", "Run COMMAND with the tracers on in every process it starts, and record what they see; or record engines that run already."),
    CommandRow("runs", "hicachectl.commands.runs", "List the recordings under $HICACHECTL_HOME: age, size, versions, requests; or remove some."),
    CommandRow("show", "hicachectl.commands.show", "Show the requests of a recording in one table, or one request's journey span by span."),
    CommandRow("explain", "hicachectl.commands.explain", "Say on which rung each request's prefix stopped, count its tokens, and name the cause with evidence."),
    CommandRow("fleet", "hicachectl.commands.fleet", "Say of many hosts and ranks what they served and lost, what is slow, which ranks lag, and which servers cannot share and why."),
    CommandRow("points", "hicachectl.commands.points", "List every hook point and what it reads; with RUN what each saw, in each process, missing and changed ones first."),
    CommandRow("code", "hicachectl.commands.code", "Print the page of a finding code or of a Mooncake number, or list all codes."),
    CommandRow("probe", "hicachectl.commands.probe", "Ask the store: can this host put, see and get? Uses keys of its own and removes them."),
    CommandRow("probe-keys", "hicachectl.commands.probe_keys", "Show which objects a prompt should have in the store, which are there, and what the engine would make of it."),
    CommandRow("doctor", "hicachectl.commands.doctor", "Say what would stop the storage backend, before the engine is started; exit 1 on an error."),
    CommandRow("export", "hicachectl.commands.export", "Send a recording to a collector, or convert it."),
    CommandRow("lab", "hicachectl.commands.lab", "A local store and a tiny model, to run the real engine on this machine."),
)


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when the command is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command of the table, in its order."""
        del ctx
        return [row.name for row in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What the list of commands shows of one, or None for a name that no row has: importing them all would take seconds."""
        del ctx
        return next((TyperCommand(row.name, help=row.line) for row in COMMANDS if row.name == cmd_name), None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is to run, from its module."""
        name, listed, rest = super().resolve_command(ctx, args)
        row = next((row for row in COMMANDS if row.name == name), None)
        if row is None:
            return name, listed, rest
        command = typer.main.get_command(importlib.import_module(row.module).app)
        command.name = row.name
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; every expected end becomes its exit code."""
        with translated():
            return super().invoke(ctx)


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=True, rich_markup_mode="rich", pretty_exceptions_show_locals=False)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hicachectl {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[Optional[bool], typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = None,
) -> None:
    """Say, for one request, on which rung its KV cache prefix stopped, and prove it.

    Record an engine:   hicachectl trace -- python -m sglang.launch_server ...
    Read the verdict:   hicachectl explain
    Try it without GPU: hicachectl demo
    """
    del version


def main() -> None:
    """Run the command line."""
    app(prog_name="hicachectl")
