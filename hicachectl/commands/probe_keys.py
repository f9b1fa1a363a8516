"""`hicachectl probe-keys`: the objects that a prompt should have in the store, and which of them are there."""

import os
import sys
from typing import Any

import typer

from hicachectl.commands import probe_keys_options as o
from hicachectl.exits import BadInputError, one_line
from hicachectl.keys.decode import decode as decoded
from hicachectl.keys.given import Given, place, question, recorded_question
from hicachectl.keys.look import asked, named
from hicachectl.keys.scheme import guessed
from hicachectl.mooncake.client import CALL_TIMEOUT_S
from hicachectl.mooncake.exists import Way
from hicachectl.options import Output, OutputOption
from hicachectl.views import presence as view
from hicachectl.views import terminal

app = typer.Typer(add_completion=False)


@app.command()
def probe_keys(
    tokens: o.TokensOption = None,
    text: o.TextOption = None,
    tokenizer: o.TokenizerOption = None,
    recording: o.RunOption = None,
    request: o.RequestOption = None,
    decode: o.DecodeOption = None,
    server: o.ServerOption = None,
    sglang: o.SglangOption = None,
    page_size: o.PageSizeOption = None,
    kind: o.KindOption = None,
    tp_size: o.TpOption = None,
    pp_size: o.PpOption = None,
    tp_lcm_size: o.LcmOption = None,
    dcp_size: o.DcpOption = None,
    cp_size: o.CpOption = None,
    tag: o.TagOption = None,
    model_name: o.ModelOption = None,
    format_tag: o.FormatOption = None,
    bigram: o.BigramOption = None,
    extra_key: o.ExtraKeyOption = None,
    cache_salt: o.SaltOption = None,
    pools: o.PoolsOption = None,
    window_pages: o.WindowOption = None,
    linker: o.LinkerOption = False,
    no_store: o.NoStoreOption = False,
    master: o.MasterOption = None,
    admin: o.AdminOption = None,
    extra_config: o.ExtraConfigOption = None,
    lookup: o.LookupOption = Way.auto,
    timeout: o.TimeoutOption = CALL_TIMEOUT_S,
    threshold: o.ThresholdOption = None,
    policy: o.PolicyOption = None,
    why: o.WhyOption = False,
    output: OutputOption = Output.table,
) -> None:
    """Show which objects a prompt should have in the store, which are there, and what the engine would make of it.

    Example:   hicachectl probe-keys --tokens prompt.txt --server http://127.0.0.1:30000 --why

    Example:   hicachectl probe-keys --tokens 1,2,3,4 --page-size 2 --tp-size 2 --no-store -o json

    Example:   hicachectl probe-keys --decode KEY
    """
    _run(locals())


def _run(options: dict[str, Any]) -> None:
    output = options.pop("output")
    # What was not given keeps the default of its field; repeated options come as lists.
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items() if value is not None
    }
    if isinstance(policy := told.get("policy"), o.Policy):
        told["policy"] = policy.value
    given = Given(**told)
    if given.source == "--decode":
        _print_decoded(given.decode, output)
        return
    asks = recorded_question(given) if given.source == "--request" else question(given, os.environ)
    if guess := guessed(asks.shape.sglang):
        sys.stderr.write(f"hicachectl: {one_line(guess)}\n")
    report = named(asks) if given.no_store else asked(asks, place(given, os.environ), given.lookup, why=given.why)
    if output is Output.json:
        sys.stdout.write(view.as_json(report))
    else:
        sys.stdout.write(view.as_text(report, width=terminal.width(), colour=terminal.colour()))


def _print_decoded(keys: tuple[str, ...], output: Output) -> None:
    found = [decoded(key) for key in keys]
    for each in found:
        if each.what == "unknown":
            raise BadInputError(
                f"{one_line(each.key)!r} is no key of SGLang's: an object has a page hash of 64 hex digits and a known ending"
            )
    if output is Output.json:
        sys.stdout.write(view.decoded_json(found))
    else:
        sys.stdout.write(view.decoded_text(found, width=terminal.width(), colour=terminal.colour()))
