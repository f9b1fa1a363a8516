"""`hicachectl show`: one request's journey, or all requests in one table."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from hicachectl import store
from hicachectl.commands.asked import recorded
from hicachectl.exits import UsageError, one_line
from hicachectl.options import Asked, FromOption, Output, OutputOption, RequestOption, RunsArgument
from hicachectl.store import Span
from hicachectl.store.around import around
from hicachectl.store.when import moment
from hicachectl.views import journey as view
from hicachectl.views.terminal import colour, width

app = typer.Typer(add_completion=False)

SinceOption = Annotated[
    Optional[str],
    typer.Option(
        "--since", metavar="TIME", help="Only requests that began then or later: 10m, 2h, 2025-11-24T16:00:00."
    ),
]
UntilOption = Annotated[
    Optional[str], typer.Option("--until", metavar="TIME", help="Only requests that began then or earlier.")
]
CodeOption = Annotated[
    Optional[str],
    typer.Option("--code", metavar="CODE", help="Only requests with this finding, as in R12 or HC-R12."),
]


@app.command()
def show(
    runs: RunsArgument = None,
    request: RequestOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    code: CodeOption = None,
    from_: FromOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Show the requests of a recording in one table, or one request's journey span by span.

    Example:   hicachectl show

    Example:   hicachectl show --request 4f1c --since 10m

    Example:   hicachectl show --from clickhouse://localhost:8123/otel --request 4f1c
    """
    now = time.time_ns()
    begin = moment(since, "--since", now) if since is not None else 0
    end = moment(until, "--until", now) if until is not None else sys.maxsize
    with store.uncollected():
        told = _told(Asked(runs, from_, request, code), lambda row: begin <= row.start_ns <= end)
    _write(told, one_asked=request is not None, output=output)


@dataclass(frozen=True, slots=True)
class Told:
    """Requests that were asked for, what is known to be missing, and where all rows are of one request the spans around it."""

    paths: list[str]
    complete: bool
    dropped: int
    incomplete: list[str]
    rows: list[view.Row]
    spans: Callable[[str], list[Span]]


def _told(asked: Asked, kept: Callable[[view.Row], bool]) -> Told:
    request, code = asked.request, asked.code
    if request is not None and code is None and asked.source is None:
        from hicachectl.index.ask import ask  # noqa: PLC0415 - `show --help` needs none of it

        found = ask(asked.runs or (), request, lambda each: kept(view.Row(**each.shown)), spans=True)
        if found is not None:
            head, rows = found.head, _named([view.Row(**each.shown) for each in found.attempts], request)
            return Told(head["runs"], head["complete"], head["dropped_spans"], head["incomplete"], rows, lambda _: found.spans)
    recording = recorded(asked.runs, asked.source, request if code is None else None)
    rows = [row for row in _rows(recording, code) if kept(row)]
    rows = _named(rows, request) if request is not None else rows
    return Told(recording.paths, recording.complete, recording.dropped, recording.incomplete, rows, lambda rid: around(recording, rid))


def _write(told: Told, *, one_asked: bool, output: Output) -> None:
    rows = told.rows
    one = rows[0].rid if one_asked and len({row.rid for row in rows}) == 1 else None
    spans = told.spans(one) if one is not None else []
    if output is Output.json:
        print(view.show_document(told.paths, told.complete, told.dropped, rows, {one: spans} if one is not None else {}), end="")
        return
    for reason in told.incomplete:
        sys.stderr.write(f"incomplete: {one_line(reason)}\n")
    if one is not None:
        print(view.journey(one, spans, width=width(), colour=colour()), end="")
    elif rows:
        print(view.requests(rows, width=width(), colour=colour()), end="")
    else:
        sys.stderr.write("no request: nothing was served, or the filters leave none\n")


def _named(rows: list[view.Row], rid: str) -> list[view.Row]:
    """Rows of the request RID, or, where there is none, of those whose id begins with it; UsageError for none at all."""
    found = [row for row in rows if row.rid == rid] or [row for row in rows if row.rid.startswith(rid)]
    if not found:
        raise UsageError(f"no request {rid} here: `hicachectl show` lists those that there are")
    return found


def _rows(recording: store.Recording, code: str | None) -> list[view.Row]:
    # Imported here: `show --help` needs none of it.
    from hicachectl.model.account import account  # noqa: PLC0415
    from hicachectl.model.world import world  # noqa: PLC0415

    if code is not None:
        return _with_code(recording, code)
    whole = world(recording)
    return [view.row(one, account(one, whole), whole.ladder(one)) for one in whole.journeys]


def _with_code(recording: store.Recording, code: str) -> list[view.Row]:
    from hicachectl.diagnosis import codes  # noqa: PLC0415
    from hicachectl.diagnosis.run import diagnose  # noqa: PLC0415

    wanted = codes.canonical(code)
    if wanted not in codes.ALL:
        raise UsageError(f"no finding code is {code}: `hicachectl code` lists them")
    found = diagnose(recording)
    rids = {rid for one in found.findings if wanted in (one.code, *one.folded) for rid in one.rids}
    return [view.row(one.journey, one.account, one.ladder) for one in found.requests if one.journey.attempt.rid in rids]
