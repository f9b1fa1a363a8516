"""Flags, spelled once; commands take them as annotations."""

from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple, Optional

import typer


class Output(str, Enum):
    """How data is printed on stdout."""

    table = "table"
    json = "json"


class FailOn(str, Enum):
    """The lowest level of a finding that makes `explain` exit 1."""

    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="How to print: a table to read, or one JSON document.")]
RunsArgument = Annotated[
    Optional[list[str]], typer.Argument(metavar="RUN", help="Recordings: folders or files, '-' for stdin. Default: the newest one.", show_default=False)
]
FromOption = Annotated[
    Optional[str],
    typer.Option(
        "--from",
        metavar="URL",
        help="Read a column store instead: clickhouse://HOST:8123/DATABASE as the Collector's exporter fills it, or chdb:FOLDER.",
        show_default=False,
    ),
]
RunArgument = Annotated[Optional[str], typer.Argument(metavar="RUN", help="A recording: a folder or file. Default: the newest one.", show_default=False)]
RequestOption = Annotated[Optional[str], typer.Option("--request", metavar="RID", help="Only the request with this id, or ids that start with it.")]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 when a finding has this level or a higher one.")]
RunDirOption = Annotated[Optional[Path], typer.Option("--run", metavar="DIR", help="Folder for the recording; must be empty or absent.", show_default=False)]


LONGEST_S = 86_400.0
"""The longest time-out that can be given, a day: beyond some sizes the system's own calls refuse a time, infinity among them."""


class Asked(NamedTuple):
    """Where to read; which requests: by id, or how it begins, and by the code of a finding."""

    runs: list[str] | None
    source: str | None
    request: str | None
    code: str | None
