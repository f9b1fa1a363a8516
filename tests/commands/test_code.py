"""`hicachectl code` as a user meets it: a real process, its stdout, stderr and exit code."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hicachectl.diagnosis import codes

ROOT = Path(__file__).resolve().parents[2]
MAIN = [sys.executable, "-c", "from hicachectl.cli import main; main()", "code"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """The command's end, with stdout and stderr apart and no terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*MAIN, *args], capture_output=True, text=True, check=False, env=environment, timeout=60)


def on_terminal(*args: str, **more: str) -> str:
    """What the command writes where stdout is a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
        "LINES": "40",
        "TERM": "xterm-256color",
        **more,
    }
    environment.pop("NO_COLOR", None) if "NO_COLOR" not in more else None
    with subprocess.Popen([*MAIN, *args], stdout=theirs, stderr=subprocess.DEVNULL, env=environment):
        os.close(theirs)
        written = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            written += piece
    os.close(ours)
    return written.decode()


def test_without_a_code_the_list_has_one_line_a_code() -> None:
    """Piped, the list is a header and a row on one line for each code, all on stdout."""
    done = run()
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert done.stderr == ""
    assert lines[0].split() == ["CODE", "LEVEL", "MEANING", "PROVOKED"]
    assert [line.split()[0] for line in lines[1:]] == [row.id for row in codes.listed()]


def test_the_list_is_narrowed_by_level_and_letter() -> None:
    """Both filters hold at once, and the letter may be small."""
    done = run("--level", "error", "--letter", "r")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "HC-R10",
        "HC-R15",
        "HC-R16",
        "HC-R21",
        "HC-R27",
        "HC-R101",
        "HC-R102",
    ]


def test_the_list_as_json_is_one_document() -> None:
    """Every row with its level, evidence, next step and proof; exit 0."""
    done = run("-o", "json")
    document = json.loads(done.stdout)
    assert document["schema"] == "hicachectl/code/1"
    assert document["asked"] is None
    assert document["errors"] == []
    assert [row["code"] for row in document["codes"]] == [row.id for row in codes.listed()]
    assert set(document["codes"][0]) == {
        "code",
        "level",
        "level_if_serving",
        "title",
        "args",
        "needs",
        "next",
        "detected",
        "versions",
    }


@pytest.mark.parametrize("spelling", ["R12", "hc-r12"])
def test_a_code_prints_its_page_as_plain_markdown_when_piped(spelling: str) -> None:
    """What comes out of a pipe is the page itself, without a control character."""
    done = run(spelling)
    assert done.returncode == 0
    assert done.stdout == codes.page("R12")
    assert "\x1b" not in done.stdout


def test_a_page_is_drawn_on_a_terminal() -> None:
    """On a terminal headings are drawn, lines keep to its width, and Markdown's signs are gone."""
    written = on_terminal("R12")
    assert "\x1b[" in written
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert "## What it means" not in plain
    assert "What it means" in plain
    assert max(len(line) for line in plain.splitlines()) <= 80


def test_no_color_is_honoured_on_a_terminal() -> None:
    """With NO_COLOR set nothing but text is written."""
    assert "\x1b" not in on_terminal("R12", NO_COLOR="1")
    assert "\x1b" not in on_terminal(NO_COLOR="1")


@pytest.mark.parametrize("args", [("--", "-704"), ("-704",), ("704",), ("OBJECT_NOT_FOUND",), ("object_not_found",)])
def test_a_mooncake_number_prints_its_meaning(args: tuple[str, ...]) -> None:
    """A number is understood with and without the dashes before it, without its sign, and by its name."""
    done = run(*args)
    assert done.returncode == 0
    assert "## Store -704: OBJECT_NOT_FOUND" in done.stdout


def test_a_shared_number_prints_each_layer() -> None:
    """The reader is told that layers share the number, and sees both meanings."""
    done = run("--", "-101")
    assert "Layers of Mooncake share numbers" in done.stdout
    assert "## Store -101: SEGMENT_NOT_FOUND" in done.stdout
    assert "## Transfer Engine -101: ERR_DNS" in done.stdout


def test_a_number_as_json_has_each_meaning() -> None:
    """Layer, number, name, meaning and what to check, in the same document as codes."""
    document = json.loads(run("-o", "json", "--", "-900").stdout)
    assert document["schema"] == "hicachectl/code/1"
    assert document["codes"] == []
    assert [(row["layer"], row["number"], row["name"]) for row in document["errors"]] == [("Store", -900, "RPC_FAIL")]
    assert document["errors"][0]["check"]


def test_a_code_as_json_carries_its_page() -> None:
    """One code asked for: one row, with the page beside it."""
    document = json.loads(run("R12", "-o", "json").stdout)
    assert [row["code"] for row in document["codes"]] == ["HC-R12"]
    assert document["codes"][0]["page"] == codes.page("R12")


@pytest.mark.parametrize("output", ["table", "json"])
def test_an_unknown_code_is_a_usage_error_with_the_nearest(output: str) -> None:
    """Exit 2 in every format, nothing on stdout, one line on stderr that offers what was meant."""
    done = run("R99", "-o", output)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "HC-R09" in done.stderr


def test_a_foreign_string_cannot_drive_the_terminal() -> None:
    """An escape in the argument comes back made visible."""
    done = run("\x1b[31mR12")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "args",
    [("R12", "--level", "error"), ("--letter", "Z"), ("--level", "fatal"), ("R12", "R13"), ("--no-such-option",)],
)
def test_what_does_not_fit_is_a_usage_error(args: tuple[str, ...]) -> None:
    """Filters beside a code, unknown letters and levels, two codes, unknown options: exit 2."""
    assert run(*args).returncode == 2


def test_help_has_an_example() -> None:
    """`--help` shows how the command is called."""
    done = run("--help")
    assert done.returncode == 0
    assert "hicachectl code R12" in done.stdout
    assert "hicachectl code -- -704" in done.stdout
