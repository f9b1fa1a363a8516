"""How a command begins: it imports what it needs, and nothing of the engine."""

import importlib
import subprocess
import sys
from pathlib import Path

import invoke
import pytest
import typer
from recordings import Recording

from hicachectl.cli import COMMANDS, CommandRow

HEAVY = ("torch", "sglang", "mooncake", "transformers", "numpy", "chdb", "pyarrow", "grpc")
TOLD = "import atexit, sys; atexit.register(lambda: sys.stderr.write('\\nmodules ' + ' '.join(sys.modules))); from hicachectl.cli import main; main()"

each_row = pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)


def modules(*words: str, home: Path) -> set[str]:
    """Modules that `hicachectl WORDS` has imported when it ends."""
    env = invoke.environment({"HICACHECTL_HOME": str(home)})
    done = subprocess.run([sys.executable, "-c", TOLD, *words], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    return set(done.stderr.rpartition("\nmodules ")[2].split())


@each_row
def test_the_list_of_commands_says_what_each_says_itself(row: CommandRow) -> None:
    """The line that the table of commands holds is the first of the command's own help."""
    command = typer.main.get_command(importlib.import_module(row.module).app)
    assert (command.help or "").splitlines()[0] == row.line


@each_row
def test_help_needs_nothing_of_the_engine(row: CommandRow, tmp_path: Path) -> None:
    """`--help` of every command imports neither the engine nor the store's client nor a heavy library."""
    assert modules(row.name, "--help", home=tmp_path).isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [("runs",), ("runs", "-o", "json"), ("code",), ("code", "R12"), ("points",), ("--version",), ("--help",)], ids=" ".join)
def test_a_command_that_reads_no_recording_needs_nothing_of_the_engine(words: tuple[str, ...], tmp_path: Path) -> None:
    """Neither the engine nor the store's client nor a heavy library is imported."""
    assert modules(*words, home=tmp_path).isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [("explain",), ("explain", "-o", "json"), ("show",), ("points",), ("export", "--to", "perfetto"), ("export", "--to", "otlp")], ids=" ".join)
def test_a_command_that_reads_a_recording_needs_nothing_of_the_engine(words: tuple[str, ...], tmp_path: Path) -> None:
    """A verdict is computed from the recording alone, wherever it was made."""
    made = Recording()
    made.engine()
    run = made.write(tmp_path / "run")
    assert modules(*words, str(run), home=tmp_path).isdisjoint(HEAVY)


@pytest.mark.parametrize("command", ["explain", "show"])
def test_a_document_of_a_recording_imports_nothing_that_draws(command: str, tmp_path: Path) -> None:
    """JSON is written without the libraries that draw tables, whatever the recording holds."""
    made = Recording()
    made.engine()
    run = made.write(tmp_path / "run")
    assert modules(command, str(run), "-o", "json", home=tmp_path).isdisjoint({"rich.console", "rich.table", "rich.text"})


def test_the_page_of_a_code_imports_no_number_of_the_store(tmp_path: Path) -> None:
    """A code of the catalogue is found without the table of Mooncake's numbers, and its page needs no JSON of ours."""
    assert modules("code", "R12", home=tmp_path).isdisjoint({"hicachectl.mooncake.errors", "hicachectl.release", "json"})


def test_the_list_of_commands_imports_none_of_them(tmp_path: Path) -> None:
    """The first help that a user sees does not wait for twelve commands."""
    found = modules("--help", home=tmp_path)
    assert {row.module for row in COMMANDS} & found == set()


def test_an_empty_home_is_told_at_once(tmp_path: Path) -> None:
    """Where there is nothing to read or to draw, nothing that reads or draws is imported."""
    assert modules("runs", home=tmp_path).isdisjoint({"msgspec", "rich.table", "httpx", "hicachectl.store.recording"})
