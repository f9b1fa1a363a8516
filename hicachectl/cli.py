"""The root app: a table of commands, each imported only when it is asked for."""

import importlib
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperGroup

from hicachectl import __version__
from hicachectl.exits import translated


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command: its name, the module that holds its `app`, and the panel it is listed under."""

    name: str
    module: str


COMMANDS: tuple[CommandRow, ...] = (
    CommandRow("demo", "hicachectl.commands.demo"),
    CommandRow("trace", "hicachectl.commands.trace"),
    CommandRow("runs", "hicachectl.commands.runs"),
    CommandRow("show", "hicachectl.commands.show"),
    CommandRow("explain", "hicachectl.commands.explain"),
    CommandRow("points", "hicachectl.commands.points"),
    CommandRow("code", "hicachectl.commands.code"),
    CommandRow("probe", "hicachectl.commands.probe"),
    CommandRow("probe-keys", "hicachectl.commands.probe_keys"),
    CommandRow("doctor", "hicachectl.commands.doctor"),
    CommandRow("export", "hicachectl.commands.export"),
    CommandRow("lab", "hicachectl.commands.lab"),
)


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when the command is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command of the table, in its order."""
        del ctx
        return [row.name for row in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command object, or None for a name that no row has."""
        del ctx
        for row in COMMANDS:
            if row.name == cmd_name:
                command = typer.main.get_command(importlib.import_module(row.module).app)
                command.name = row.name
                return command
        return None

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
