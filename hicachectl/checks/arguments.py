"""The engine's arguments as far as they decide about the storage backend, and where each value comes from.

Source of names, forms and defaults: `ServerArgs` of SGLang 0.5.14 (`sglang/srt/server_args.py`) and 0.5.23 (`sglang/srt/arg_groups/fields/`).
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from hicachectl.exits import BadInputError

MODULES = frozenset({"sglang.launch_server", "sglang"})
COMMAND_LINE, DEFAULT, ENGINE, SERVER = "command line", "default", "SGLang's own parser", "the server's answer"


@dataclass(frozen=True, slots=True)
class Row:
    """One argument of the engine; `read` None is a flag without a value."""

    name: str
    default: Any
    read: Callable[[str], Any] | None = str
    also: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Its spellings on the command line."""
        return (f"--{self.name.replace('_', '-')}", *self.also)


ROWS: tuple[Row, ...] = (
    Row("model_path", None, also=("--model",)),
    Row("served_model_name", None),
    Row("device", None),
    Row("tp_size", 1, int, ("--tensor-parallel-size", "--tp")),
    Row("pp_size", 1, int, ("--pipeline-parallel-size",)),
    Row("dp_size", 1, int, ("--data-parallel-size", "--dp")),
    Row("page_size", None, int),
    Row("max_total_tokens", None, int),
    Row("kv_cache_dtype", "auto"),
    Row("disable_radix_cache", False, None),
    Row("enable_hierarchical_cache", False, None, ("--enable-hicache",)),
    Row("hicache_ratio", None, float),
    Row("hicache_size", 0, int),
    Row("hicache_host_memory_mode", "cache"),
    Row("hicache_write_policy", "write_through"),
    Row("hicache_io_backend", "kernel"),
    Row("hicache_mem_layout", "page_first"),
    Row("hicache_storage_backend", None),
    Row("hicache_storage_prefetch_policy", "timeout"),
    Row("hicache_storage_backend_extra_config", None),
    Row("enable_unified_memory", False, None),
    Row("disaggregation_mode", "null"),
    Row("disaggregation_transfer_backend", "mooncake"),
    Row("disaggregation_ib_device", None),
    Row("mooncake_ib_device", None),
    Row("encoder_only", False, None),
    Row("language_only", False, None),
    Row("encoder_transfer_backend", None),  # a release's own default, and never mooncake
)
DEFAULT_RATIO = 2.0
"""Of `hicache_ratio`, where nothing is given: a field's default in 0.5.14, resolved later in 0.5.23."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Values by name, and the origin of each that is no default."""

    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The value of an argument, its default where nothing was given."""
        return self.values[name] if name in self.values else next(row.default for row in ROWS if row.name == name)

    def origin(self, name: str) -> str:
        """Where the value comes from."""
        return self.origins.get(name, DEFAULT)

    @property
    def ranks(self) -> int:
        """Processes that share one configuration of the store: tensor-parallel times pipeline-parallel."""
        tensor, pipeline = int(self["tp_size"]), int(self["pp_size"])
        return max(1, tensor) * max(1, pipeline)

    @property
    def uses_mooncake(self) -> bool:
        """Whether the engine would create the Mooncake backend."""
        return bool(self["hicache_storage_backend"] == "mooncake")


NOTHING_GIVEN = Arguments()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise BadInputError(f"the engine's command line cannot be read: {message}")


def words_of(command: Sequence[str]) -> list[str] | None:
    """The engine's own words in COMMAND: what follows `-m sglang.launch_server` or `sglang serve`; None where neither is there."""
    words = list(command)
    for at, word in enumerate(words):
        if word in MODULES and at and words[at - 1] == "-m":
            rest = words[at + 1 :]
            return rest[1:] if word == "sglang" and rest[:1] == ["serve"] else rest
        if PurePath(word).name == "launch_server.py":
            return words[at + 1 :]
        if PurePath(word).name == "sglang" and words[at + 1 : at + 2] == ["serve"]:
            return words[at + 2 :]
    return None


def parse(words: Sequence[str]) -> Arguments:
    """Read the arguments that are known here, the others are the engine's business; BadInputError where a value has the wrong form."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    for row in ROWS:
        if row.read is None:
            parser.add_argument(*row.flags, dest=row.name, action="store_true", default=argparse.SUPPRESS)
        else:
            parser.add_argument(*row.flags, dest=row.name, type=row.read, default=argparse.SUPPRESS)
    found, _ = parser.parse_known_args(list(words))
    values = vars(found)
    return Arguments(values, dict.fromkeys(values, COMMAND_LINE))


def told(answer: Mapping[str, Any], origin: str, given: Arguments | None = None) -> Arguments:
    """Arguments that SGLang itself tells, by a server's answer or by its parser; GIVEN keeps the origin of what the user typed."""
    typed = given.origins if given is not None else {}
    values = {row.name: answer[row.name] for row in ROWS if row.name in answer}
    origins = {
        name: typed.get(name, origin) for name, value in values.items() if name in typed or value != NOTHING_GIVEN[name]
    }
    return Arguments(values, origins)
