"""`hicachectl explain`: the verdict on each request of a recording."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hicachectl.exits import DONE, FOUND, UnreachableError, UsageError, leave, one_line
from hicachectl.options import (
    Asked,
    FailOn,
    FailOnOption,
    FromOption,
    Output,
    OutputOption,
    RequestOption,
    RunsArgument,
)

if TYPE_CHECKING:
    from hicachectl.diagnosis.finding import Finding

app = typer.Typer(add_completion=False)

CodeFilter = Annotated[Optional[str], typer.Option("--code", metavar="CODE", help="Only requests and findings with this code.")]


@app.command()
def explain(
    runs: RunsArgument = None,
    request: RequestOption = None,
    code: CodeFilter = None,
    fail_on: FailOnOption = FailOn.error,
    from_: FromOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Say on which rung each request's prefix stopped, count its tokens, and name the cause with evidence.

    Recordings of several engines and hosts may be named together. Exits 1 when a finding has the level of --fail-on or a
    higher one, and 0 otherwise.

    Example:   hicachectl explain

    Example:   hicachectl explain ./run-a ./run-b --request 4f2a -o json

    Example:   hicachectl explain --from clickhouse://localhost:8123/otel --request 4f2a
    """
    from hicachectl.store import uncollected  # noqa: PLC0415 - here and below: other commands and --help pay for none of it

    with uncollected():
        leave(_explain(Asked(runs, from_, request, code), fail_on, output))


def _explain(asked: Asked, fail_on: FailOn, output: Output) -> int:
    from hicachectl.diagnosis.codes import ALL, canonical  # noqa: PLC0415

    code, request = asked.code, asked.request
    if code is not None and canonical(code) not in ALL:
        raise UsageError(f"--code {one_line(code)}: no finding has this code; `hicachectl code` lists them")
    if request is not None and code is None and asked.source is None:
        from hicachectl.diagnosis.gathering import concerning, merged  # noqa: PLC0415
        from hicachectl.index.ask import ask  # noqa: PLC0415

        told = ask(asked.runs or (), request)
        if told is not None:
            rows = [each.explained for each in told.attempts]
            found = merged(concerning(told.findings, {(row["rid"], row["engine"]) for row in rows}))
            return _written(told.head, _some(rows, told.head["runs"], request), lambda: found, fail_on, output)
    return _all_read(asked, fail_on, output)


def _all_read(asked: Asked, fail_on: FailOn, output: Output) -> int:
    """The answer from everything that there is to read."""
    from hicachectl.commands.asked import recorded  # noqa: PLC0415
    from hicachectl.diagnosis.gathering import merged  # noqa: PLC0415
    from hicachectl.diagnosis.run import Judging, judge, select  # noqa: PLC0415
    from hicachectl.model.world import world  # noqa: PLC0415
    from hicachectl.views import judged as view  # noqa: PLC0415

    code, request = asked.code, asked.request
    seen = world(recorded(asked.runs, asked.source, request if code is None else None))
    if not seen.journeys and not any(engine.scheduler for engine in seen.engines.values()):
        raise UnreachableError(f"no engine left anything in {', '.join(seen.recording.paths)}: its command started none, or the hicachectl plugin is not in its Python")
    if request is None and code is None:
        judging = Judging(seen)
        requests = (view.request_row(each) for each in judging.requests(seen.journeys, forget=True))
        return _written(view.head_row(seen), requests, lambda: merged(judging.raised()), fail_on, output)
    verdicts, findings = select(judge(seen), request, code)
    rows = [view.request_row(each) for each in verdicts]
    return _written(view.head_row(seen), _some(rows, seen.recording.paths, request), lambda: findings, fail_on, output)


def _some(rows: list[dict[str, Any]], runs: Sequence[str], request: str | None) -> list[dict[str, Any]]:
    if request is not None and not rows:
        raise UsageError(f"no request id of {', '.join(runs)} is or begins with {one_line(request)}: see `hicachectl show`")
    return rows


def _written(head: dict[str, Any], requests: Iterable[dict[str, Any]], findings: "Callable[[], list[Finding]]", fail_on: FailOn, output: Output) -> int:
    """Write all as it becomes known; the exit code that it makes."""
    from hicachectl.views.explained import as_json, finding_row  # noqa: PLC0415

    levels: set[str] = set()

    def told() -> Iterator[dict[str, Any]]:
        for each in findings():
            levels.add(each.level)
            yield finding_row(each)

    if output is Output.json:
        parts = as_json(head, requests, told)
    else:
        from hicachectl.views import explain as view  # noqa: PLC0415 - JSON draws nothing

        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        parts = view.as_text(head, requests, told, width=width, colour=colour)
    sys.stdout.writelines(parts)
    return FOUND if levels & _failing(fail_on) else DONE


def _failing(fail_on: FailOn) -> set[str]:
    """Levels at or above the threshold."""
    levels = ["error", "warning", "info"]
    return set() if fail_on is FailOn.never else set(levels[: levels.index(fail_on.value) + 1])
