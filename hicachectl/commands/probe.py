"""`hicachectl probe`: a live put / exists / get / compare against the store, which leaves it as it was."""

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Optional

import typer

from hicachectl.exits import FOUND, UnreachableError, leave, one_line
from hicachectl.mooncake.client import CALL_TIMEOUT_S, StoreRefusedError
from hicachectl.mooncake.probe import over_http, settings
from hicachectl.mooncake.probe.admin import locate
from hicachectl.mooncake.probe.plan import Plan
from hicachectl.mooncake.probe.report import Report
from hicachectl.mooncake.probe.run import Tick, probe
from hicachectl.options import LONGEST_S, Output, OutputOption
from hicachectl.views import probe as view

app = typer.Typer(add_completion=False)

STORE, LOAD = "Which store", "What is put and read"
BAR_AFTER_S = 1.0

MasterOption = Annotated[
    Optional[str],
    typer.Option(
        "--master",
        metavar="HOST:PORT",
        help="The master's RPC address. Default: as SGLang would read it.",
        rich_help_panel=STORE,
    ),
]
AdminOption = Annotated[
    Optional[str],
    typer.Option(
        "--admin",
        metavar="URL",
        help="The master's admin port, as http://HOST:PORT. Default: configured, or found beside the master.",
        rich_help_panel=STORE,
    ),
]
ExtraConfigOption = Annotated[
    Optional[str],
    typer.Option(
        "--extra-config",
        metavar="JSON",
        help="What the engine gets as --hicache-storage-backend-extra-config.",
        rich_help_panel=STORE,
    ),
]
ProtocolOption = Annotated[
    Optional[str], typer.Option("--protocol", help="tcp or rdma. Default: as configured.", rich_help_panel=STORE)
]
DeviceOption = Annotated[
    Optional[str],
    typer.Option("--device", help="RDMA devices, with commas between. Default: as configured.", rich_help_panel=STORE),
]
HttpOption = Annotated[
    bool,
    typer.Option(
        "--http", help="Ask the master over HTTP alone: no client library, no key, no lease.", rich_help_panel=STORE
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="S", min=0.1, max=LONGEST_S, help="Seconds that one call of the store may take.", rich_help_panel=STORE
    ),
]
SegmentOption = Annotated[
    str,
    typer.Option(
        "--segment-size",
        metavar="BYTES",
        help="Memory that this client lends to the pool while it runs.",
        rich_help_panel=STORE,
    ),
]
SizeOption = Annotated[
    str,
    typer.Option(
        "--size",
        metavar="BYTES",
        help="Bytes of one object, as in 65536, 64k, 4MiB; a page is two.",
        rich_help_panel=LOAD,
    ),
]
PagesOption = Annotated[
    int,
    typer.Option("--pages", metavar="N", min=1, help="Pages of a batch, K and V each an object.", rich_help_panel=LOAD),
]
RepeatOption = Annotated[
    int, typer.Option("--repeat", metavar="N", min=1, help="How often each kind of call is made.", rich_help_panel=LOAD)
]
WatermarkOption = Annotated[
    Optional[float],
    typer.Option(
        "--watermark",
        metavar="SHARE",
        min=0.0,
        max=1.0,
        help="Fullness at which this master evicts. Default: by its command line or release.",
        rich_help_panel=LOAD,
    ),
]
TensorsOption = Annotated[
    bool,
    typer.Option(
        "--tensors/--no-tensors",
        help="Also put and get tensors; loads torch, which takes seconds.",
        rich_help_panel=LOAD,
    ),
]
BenchOption = Annotated[
    bool,
    typer.Option(
        "--bench", help="Compare the batches' bandwidth with a bare loop of the same calls.", rich_help_panel=LOAD
    ),
]


@app.command()
def run(
    master: MasterOption = None,
    admin: AdminOption = None,
    extra_config: ExtraConfigOption = None,
    protocol: ProtocolOption = None,
    device: DeviceOption = None,
    segment_size: SegmentOption = "0",
    timeout: TimeoutOption = CALL_TIMEOUT_S,
    http: HttpOption = False,
    size: SizeOption = "64KiB",
    pages: PagesOption = 128,
    repeat: RepeatOption = 8,
    watermark: WatermarkOption = None,
    tensors: TensorsOption = True,
    bench: BenchOption = False,
    output: OutputOption = Output.table,
) -> None:
    """Ask the store: can this host put, see and get? Uses keys of its own and removes them.

    Example:   hicachectl probe --master 127.0.0.1:50051

    Example:   hicachectl probe --size 4MiB --pages 32 --bench -o json

    Example:   hicachectl probe --http --admin http://127.0.0.1:9003
    """
    url = settings.admin_url(admin) if admin is not None else None
    if http:
        _show(over_http.look(url or _found_admin(master, extra_config), timeout), output)
        return
    config = settings.read(os.environ, master, extra_config)
    object_size, lent = settings.size_of(size), 0 if segment_size == "0" else settings.size_of(segment_size)
    plan = Plan(
        settings=settings.client(config, master, protocol, device, lent, object_size),
        size=object_size,
        pages=pages,
        repeat=repeat,
        timeout=timeout,
        bench=bench,
        tensors=tensors,
        admin_port=settings.admin_port(config, master),
        admin_url=url,
        watermark=watermark,
    )
    try:
        with _bar() as tick:
            report = probe(plan, tick)
    except StoreRefusedError as error:
        raise UnreachableError(f"{error}; without it, `hicachectl probe --http` asks the master alone") from error
    _show(report, output)


def _found_admin(master: str | None, extra_config: str | None) -> str:
    config = settings.read(os.environ, master, extra_config)
    address = settings.client(config, master).master_server_address
    found = locate(address, settings.admin_port(config, master))
    if found is None:
        raise UnreachableError(
            f"the admin port of '{address}' cannot be derived from that address: give --admin http://HOST:PORT"
        )
    return found.url


def _show(report: Report, output: Output) -> None:
    """Print the report, say the verdict, and end with its exit code."""
    if output is Output.json:
        print(view.as_json(report), end="")
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(view.as_text(report, width=width, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")), end="")
    sys.stdout.flush()
    failed = report.failed
    if failed and not report.connected:
        raise UnreachableError(f"no connection to the store: {failed[0].meaning} {failed[0].next}")
    if failed or report.left_behind:
        first = f"{failed[0].name} failed: {failed[0].meaning}" if failed else "own objects are left behind"
        sys.stderr.write(f"hicachectl: {one_line(first)}\n")
        leave(FOUND)
    sys.stderr.write("hicachectl: every step went right\n")


@contextmanager
def _bar() -> Iterator[Tick]:
    """A progress bar on stderr, where that is a terminal and the probe takes more than a second."""
    if not sys.stderr.isatty():
        yield lambda _step, _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("probe", total=None)
    # A timer and not the next step, because a step that hangs is what a bar is for.
    timer = threading.Timer(BAR_AFTER_S, bar.start)
    timer.start()
    try:
        yield lambda step, done, total: bar.update(task, description=step, completed=done, total=max(done, total))
    finally:
        timer.cancel()
        bar.stop()
