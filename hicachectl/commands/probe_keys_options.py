"""The options of `hicachectl probe-keys`, spelled once."""

from enum import Enum
from typing import Annotated, Optional

import typer

from hicachectl.keys.pools import Kind
from hicachectl.mooncake.exists import Way
from hicachectl.options import LONGEST_S

PROMPT, SHAPE, STORE, ENGINE = "Which prompt", "Which shape", "Which store", "What follows from it"


class Policy(str, Enum):
    """The values of `--hicache-storage-prefetch-policy`."""

    best_effort = "best_effort"
    wait_complete = "wait_complete"
    timeout = "timeout"


TokensOption = Annotated[
    Optional[str],
    typer.Option(
        "--tokens",
        metavar="IDS|FILE|-",
        help="Token ids with commas or white space between, the name of a file that holds them, or - for stdin.",
        rich_help_panel=PROMPT,
        show_default=False,
    ),
]
TextOption = Annotated[
    Optional[str],
    typer.Option(
        "--text",
        metavar="TEXT",
        help="The prompt as text; needs --tokenizer.",
        rich_help_panel=PROMPT,
        show_default=False,
    ),
]
TokenizerOption = Annotated[
    Optional[str],
    typer.Option(
        "--tokenizer",
        metavar="PATH",
        help="The model's folder, its tokenizer.json, or its name.",
        rich_help_panel=PROMPT,
        show_default=False,
    ),
]
RunOption = Annotated[
    Optional[str],
    typer.Option(
        "--run",
        metavar="RUN",
        help="A recording to take --request from. Default: the newest one.",
        rich_help_panel=PROMPT,
        show_default=False,
    ),
]
RequestOption = Annotated[
    Optional[str],
    typer.Option(
        "--request",
        metavar="RID",
        help="A recorded request, or the beginning of its id: page keys as recorded.",
        rich_help_panel=PROMPT,
        show_default=False,
    ),
]
DecodeOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--decode",
        metavar="KEY",
        help="The reverse: say what an object key of the store is. May be repeated.",
        rich_help_panel=PROMPT,
        show_default=False,
    ),
]
ServerOption = Annotated[
    Optional[str],
    typer.Option(
        "--server",
        metavar="URL",
        help="Read the shape from a running SGLang server; options below override it.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
SglangOption = Annotated[
    Optional[str],
    typer.Option(
        "--sglang",
        metavar="VERSION",
        help="SGLang release whose key rules hold. Default: the installed one.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
PageSizeOption = Annotated[
    Optional[int],
    typer.Option(
        "--page-size", metavar="N", min=1, help="Tokens of a page.", rich_help_panel=SHAPE, show_default=False
    ),
]
KindOption = Annotated[
    Optional[Kind],
    typer.Option(
        "--kind",
        help="mha: each rank its heads; mla: ranks share the KV cache.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
TpOption = Annotated[
    Optional[int],
    typer.Option(
        "--tp-size",
        metavar="N",
        min=1,
        help="Ranks that share the attention (tp over dp, under attention data parallelism).",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
PpOption = Annotated[
    Optional[int],
    typer.Option("--pp-size", metavar="N", min=1, help="Pipeline stages.", rich_help_panel=SHAPE, show_default=False),
]
LcmOption = Annotated[
    Optional[int],
    typer.Option(
        "--tp-lcm-size",
        metavar="N",
        min=1,
        help="Split heads for this tensor-parallel size (extra_config, with layout page_head).",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
DcpOption = Annotated[
    Optional[int],
    typer.Option(
        "--dcp-size", metavar="N", min=1, help="Decode context parallelism.", rich_help_panel=SHAPE, show_default=False
    ),
]
CpOption = Annotated[
    Optional[int],
    typer.Option(
        "--cp-size",
        metavar="N",
        min=1,
        help="Attention context parallelism.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
TagOption = Annotated[
    Optional[str],
    typer.Option("--tag", metavar="TAG", help="extra_backend_tag.", rich_help_panel=SHAPE, show_default=False),
]
ModelOption = Annotated[
    Optional[str],
    typer.Option(
        "--model-name",
        metavar="NAME",
        help="The served model name, in keys since 0.5.17.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
FormatOption = Annotated[
    Optional[str],
    typer.Option(
        "--format-tag",
        metavar="TAG",
        help="The host pool's storage format, in keys since 0.5.22.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
BigramOption = Annotated[
    Optional[bool],
    typer.Option(
        "--bigram/--no-bigram", help="Pages of token pairs, as under EAGLE.", rich_help_panel=SHAPE, show_default=False
    ),
]
ExtraKeyOption = Annotated[
    Optional[str],
    typer.Option(
        "--extra-key",
        metavar="KEY",
        help="The request's extra_key, in page keys since 0.5.20.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
SaltOption = Annotated[
    Optional[str],
    typer.Option(
        "--cache-salt",
        metavar="SALT",
        help="The request's cache_salt, in page keys since 0.5.20.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
PoolsOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--pools",
        metavar="POOLS",
        help="Pools beside K and V, as in mamba:2,swa,draft:mha. May be repeated.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
WindowOption = Annotated[
    Optional[int],
    typer.Option(
        "--window-pages",
        metavar="N",
        min=1,
        help="Pages of a sliding window, for the pools of which only the end of a prefix is kept.",
        rich_help_panel=SHAPE,
        show_default=False,
    ),
]
LinkerOption = Annotated[
    bool,
    typer.Option(
        "--linker",
        help="Keys of the direct linker instead of HiCache's; --model-name is then the model's path.",
        rich_help_panel=SHAPE,
    ),
]
NoStoreOption = Annotated[bool, typer.Option("--no-store", help="Print keys only; asks nobody.", rich_help_panel=STORE)]
MasterOption = Annotated[
    Optional[str],
    typer.Option(
        "--master",
        metavar="HOST:PORT",
        help="The master's RPC address. Default: as SGLang would read it.",
        rich_help_panel=STORE,
        show_default=False,
    ),
]
AdminOption = Annotated[
    Optional[str],
    typer.Option(
        "--admin",
        metavar="URL",
        help="The master's admin port, as http://HOST:PORT. Default: configured, or found beside the master.",
        rich_help_panel=STORE,
        show_default=False,
    ),
]
ExtraConfigOption = Annotated[
    Optional[str],
    typer.Option(
        "--extra-config",
        metavar="JSON",
        help="What the engine gets as --hicache-storage-backend-extra-config.",
        rich_help_panel=STORE,
        show_default=False,
    ),
]
LookupOption = Annotated[
    Way,
    typer.Option(
        "--lookup",
        help="How the store is asked. auto: the way of its release that leaves no trace, where there is one.",
        rich_help_panel=STORE,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="S", min=0.1, max=LONGEST_S, help="Seconds that one call may take.", rich_help_panel=STORE),
]
ThresholdOption = Annotated[
    Optional[int],
    typer.Option(
        "--prefetch-threshold",
        metavar="N",
        min=0,
        help="Tokens from which on the engine fetches. Default: as configured, or 256.",
        rich_help_panel=ENGINE,
        show_default=False,
    ),
]
PolicyOption = Annotated[
    Optional[Policy],
    typer.Option(
        "--prefetch-policy", help="How long the engine waits for a fetch.", rich_help_panel=ENGINE, show_default=False
    ),
]
WhyOption = Annotated[
    bool,
    typer.Option(
        "--why",
        help="Where nothing matches, say under which neighbouring shape objects of these tokens exist.",
        rich_help_panel=ENGINE,
    ),
]
