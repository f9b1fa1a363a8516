"""The store's configuration as SGLang would read it: which source wins, every value with its origin, and what is given in vain.

Source of the rules: `MooncakeBaseStore._load_config` and `MooncakeStoreConfig` in
`sglang/srt/mem_cache/storage/mooncake_store/mooncake_store.py`, the variables' defaults in `sglang/srt/environ.py`,
the extra configuration's form in `hiradix_cache.py` and `hybrid_cache_controller.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.mooncake import config_values as values
from hicachectl.release import Release

FILE_VARIABLE = "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH"
DEFAULT_TENANT = "default"

T = TypeVar("T")


class Source(str, Enum):
    """Where the store's configuration is taken from; SGLang takes exactly one."""

    extra_config = "extra_config"
    file = "file"
    environment = "environment"


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """One setting: what SGLang would use, where that comes from, and a remark where it is not what was written."""

    value: T
    origin: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A value that was given and that SGLang does not use."""

    name: str
    value: str
    origin: str
    why: str


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The store's settings, as an engine of one SGLang release with this configuration would see them."""

    sglang: str
    source: Source
    local_hostname: Value[str]
    metadata_server: Value[str]
    global_segment_size: Value[int]
    protocol: Value[str]
    device_name: Value[str]
    master_server_address: Value[str | None]
    master_metrics_port: Value[int]
    check_server: Value[bool]
    standalone_storage: Value[bool]
    client_server_address: Value[str | None]
    enable_ssd_offload: Value[bool]
    ssd_offload_path: Value[str | None]
    tenant_id: Value[str]
    extra_backend_tag: Value[str | None]
    enable_group_semantics: Value[bool]
    prefetch_threshold: Value[int]
    tp_lcm_size: Value[int | None]
    ignored: tuple[Ignored, ...]

    def segment_per_rank(self, tp_size: int = 1, pp_size: int = 1) -> int:
        """Bytes of memory that each rank lends: the whole size over tp ranks, since 0.5.19 over tp x pp ranks."""
        ranks = tp_size * pp_size if _since(self.sglang, "0.5.19") else tp_size
        return self.global_segment_size.value // ranks

    def device_for(self, tp_rank: int) -> Value[str]:
        """The RDMA device of one rank; a device name may be a JSON map by rank, and a rank that it lacks gets none."""
        name = self.device_name.value
        if not isinstance(name, str) or not name.strip().startswith("{"):
            return self.device_name
        try:
            by_rank = msgspec.json.decode(name)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Value("", self.device_name.origin, "the map by rank is no valid JSON: SGLang warns and takes none")
        found = by_rank.get(str(tp_rank)) if isinstance(by_rank, dict) else None
        remark = (
            "" if found else f"the map by rank has nothing for rank {tp_rank}: no device, without a word in the log"
        )
        return Value(str(found or ""), self.device_name.origin, remark)


@dataclass(frozen=True, slots=True)
class _Row:
    """One setting: its key in file and extra_config, its variable, its default, how its text is read, and its release."""

    name: str
    variable: str
    default: str | int | bool | None
    read: Callable[[str], Any] = values.text
    since: str = "0.5.14"
    # Whether the variable also counts where a file or extra_config lacks the key, and from which release on.
    variable_fills_from: str | None = None


ROWS: tuple[_Row, ...] = (
    _Row("local_hostname", "MOONCAKE_LOCAL_HOSTNAME", "localhost"),
    _Row("metadata_server", "MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"),
    _Row("global_segment_size", "MOONCAKE_GLOBAL_SEGMENT_SIZE", "4gb"),
    _Row("protocol", "MOONCAKE_PROTOCOL", "rdma", variable_fills_from="0.5.23"),
    _Row("device_name", "MOONCAKE_DEVICE", ""),
    _Row("master_server_address", "MOONCAKE_MASTER", None),
    _Row("master_metrics_port", "MOONCAKE_MASTER_METRICS_PORT", 9003, values.integer),
    _Row("check_server", "MOONCAKE_CHECK_SERVER", False, values.flag),
    _Row("standalone_storage", "MOONCAKE_STANDALONE_STORAGE", False, values.flag),
    _Row("client_server_address", "MOONCAKE_CLIENT", None),
    _Row("enable_ssd_offload", "MOONCAKE_ENABLE_SSD_OFFLOAD", False, values.flag),
    _Row("ssd_offload_path", "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH", None),
    _Row("tenant_id", "MOONCAKE_TENANT_ID", DEFAULT_TENANT, since="0.5.17"),
)
"""Settings that come from the winning source."""

ENGINE_ROWS: tuple[tuple[str, Any, type], ...] = (
    ("extra_backend_tag", None, object),
    ("enable_group_semantics", False, object),
    ("prefetch_threshold", 256, int),
    ("tp_lcm_size", None, object),
)
"""Settings that SGLang takes from extra_config whichever source names the store: name, default, type that it insists on."""

_ALSO_UNDERSTOOD = frozenset(
    {
        "prefetch_timeout_base",
        "prefetch_timeout_per_ki_token",
        "prefetch_timeout_max",
        "hicache_storage_pass_prefix_keys",
        "interface_v1",
        "backend_name",
        "module_path",
        "class_name",
    }
)


class NotConfiguredError(UnreachableError):
    """No source names a store."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Everything that was given, and which part of it wins."""

    source: Source
    mapping: dict[str, Any]
    origin: str
    environment: Mapping[str, str]
    extra: dict[str, Any]
    sglang: str

    def since(self, release: str) -> bool:
        """Whether the engine is of this SGLang release or a later one."""
        return _since(self.sglang, release)


def read(environment: Mapping[str, str], extra_config: str | None = None, sglang: str = "0.5.14") -> StoreConfig:
    """Read the configuration as an engine of release SGLANG would.

    `extra_config` is what `--hicache-storage-backend-extra-config` got: JSON, or `@` and a .json, .toml or .yaml file.
    Raises NotConfiguredError where nothing names a store, UnreachableError where a named file is missing, and
    BadInputError where SGLang would refuse a value.
    """
    extra = _extra(extra_config)
    source, mapping, origin = _source(environment, extra)
    given = _Given(source, mapping, origin, environment, extra, sglang)
    settings = {row.name: _setting(row, given) for row in ROWS}
    settings["global_segment_size"] = _segment_size(settings["global_segment_size"])
    settings["local_hostname"] = _hostname(given)
    settings["tenant_id"] = _tenant(settings["tenant_id"])
    engine = {name: _engine_setting(name, default, kind, extra) for name, default, kind in ENGINE_ROWS}
    return StoreConfig(sglang=sglang, source=source, ignored=_ignored(given, settings), **settings, **engine)


def _since(sglang: str, release: str) -> bool:
    return Release.of(sglang) >= Release.of(release)


def _extra(extra_config: str | None) -> dict[str, Any]:
    """The mapping behind `--hicache-storage-backend-extra-config`; empty where it was not given."""
    if not extra_config:
        return {}
    if extra_config.startswith("@"):
        return values.mapping_of_file(Path(extra_config[1:]), "the extra configuration")
    return values.mapping_of_json(extra_config.encode(), "the extra configuration")


def _source(environment: Mapping[str, str], extra: dict[str, Any]) -> tuple[Source, dict[str, Any], str]:
    """The winning source, its mapping (empty for the environment), and how it is called."""
    if extra.get("master_server_address") is not None or extra.get("client_server_address") is not None:
        return Source.extra_config, extra, "extra_config"
    if FILE_VARIABLE in environment:
        path = Path(environment[FILE_VARIABLE])
        mapping = values.mapping_of_json(values.bytes_of_file(path, f"${FILE_VARIABLE}"), str(path))
        if "master_server_address" not in mapping and "client_server_address" not in mapping:
            raise BadInputError(
                f"{path} (${FILE_VARIABLE}) names neither master_server_address nor client_server_address: SGLang refuses it"
            )
        return Source.file, mapping, f"file {path}"
    if "MOONCAKE_MASTER" in environment or "MOONCAKE_CLIENT" in environment:
        return Source.environment, {}, "environment"
    raise NotConfiguredError(
        f"no Mooncake store is configured: neither extra_config nor ${FILE_VARIABLE} nor $MOONCAKE_MASTER nor $MOONCAKE_CLIENT "
        "names one; give --master HOST:PORT or set MOONCAKE_MASTER"
    )


def _setting(row: _Row, given: _Given) -> Value[Any]:
    if not given.since(row.since):
        return Value(row.default, "default", f"SGLang knows this since {row.since}")
    if given.source is not Source.environment:
        if row.name in given.mapping:
            return Value(given.mapping[row.name], given.origin, values.odd_type(row.read, given.mapping[row.name]))
        if row.variable_fills_from is None or not given.since(row.variable_fills_from):
            return Value(row.default, "default")
    if row.variable not in given.environment:
        return Value(row.default, "default")
    try:
        return Value(row.read(given.environment[row.variable]), f"environment {row.variable}")
    except ValueError:
        return Value(row.default, "default", f"${row.variable} cannot be read, SGLang warns and takes the default")


def _segment_size(setting: Value[Any]) -> Value[int]:
    try:
        return Value(values.segment_bytes(setting.value), setting.origin, setting.remark)
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"global_segment_size {setting.value!r} ({setting.origin}) is refused by SGLang: "
            "it takes bytes or whole gigabytes, as in 1073741824 or 4gb"
        ) from error


def _hostname(given: _Given) -> Value[str]:
    """Up to 0.5.20 the winning source rules; from 0.5.21 on the variables beat a file and extra_config, and empty texts do not count."""
    newer = given.since("0.5.21")
    candidates: list[Value[str]] = []
    if newer or given.source is Source.environment:
        candidates += [
            Value(given.environment[name], f"environment {name}")
            for name in ("MOONCAKE_LOCAL_HOSTNAME", "LOCAL_HOSTNAME")
            if name in given.environment
        ]
    if "local_hostname" in given.mapping:
        candidates.append(Value(given.mapping["local_hostname"], given.origin))
    for each in candidates:
        # SGLang 0.5.21 and later skip an empty text, except in MOONCAKE_LOCAL_HOSTNAME.
        if each.value or not newer or each.origin.endswith("MOONCAKE_LOCAL_HOSTNAME"):
            return each
    return Value("localhost", "default")


def _tenant(setting: Value[Any]) -> Value[str]:
    name = "" if setting.value is None else str(setting.value).strip()
    return Value(name or DEFAULT_TENANT, setting.origin, setting.remark)


def _engine_setting(name: str, default: Any, kind: type, extra: dict[str, Any]) -> Value[Any]:
    if name not in extra:
        return Value(default, "default")
    if not isinstance(extra[name], kind):
        raise BadInputError(
            f"{name} {extra[name]!r} (extra_config) is refused by SGLang: it must be of type {kind.__name__}"
        )
    return Value(extra[name], "extra_config")


def _ignored(given: _Given, settings: Mapping[str, Value[Any]]) -> tuple[Ignored, ...]:
    found = [*_ignored_variables(given, settings), *_ignored_keys(given, settings)]
    if given.source is not Source.extra_config:
        why = f"extra_config names no master_server_address, so the {given.source.value} describes the store"
        known = [row.name for row in ROWS if row.name in given.extra]
        found += [Ignored(name, str(given.extra[name]), "extra_config", why) for name in known]
        found += [_not_known(name, given.extra, "extra_config") for name in _unknown(given.extra)]
    elif FILE_VARIABLE in given.environment:
        why = "extra_config names a store, so the file is not opened"
        found.append(Ignored(FILE_VARIABLE, given.environment[FILE_VARIABLE], "environment", why))
    return tuple(found)


def _ignored_variables(given: _Given, settings: Mapping[str, Value[Any]]) -> list[Ignored]:
    found = []
    for name, variable in [*((row.name, row.variable) for row in ROWS), ("local_hostname", "LOCAL_HOSTNAME")]:
        used = settings[name]
        if variable not in given.environment or used.origin == f"environment {variable}":
            continue
        if name == "tenant_id" and not given.since("0.5.17"):
            why = "SGLang knows tenants since 0.5.17"
        elif given.source is Source.environment:
            why = used.remark or f"{used.origin} is taken instead"
        else:
            winner = "extra_config" if given.source is Source.extra_config else "the file"
            why = f"{winner} describes the store; {name} is {used.value!r} ({used.origin})"
        found.append(Ignored(variable, given.environment[variable], "environment", why))
    return found


def _ignored_keys(given: _Given, settings: Mapping[str, Value[Any]]) -> list[Ignored]:
    mapping, origin, hostname = given.mapping, given.origin, settings["local_hostname"].origin
    found = [_not_known(name, mapping, origin) for name in _unknown(mapping)]
    if "local_hostname" in mapping and hostname != origin:
        found.append(Ignored("local_hostname", str(mapping["local_hostname"]), origin, f"{hostname} is taken instead"))
    if "tenant_id" in mapping and not given.since("0.5.17"):
        found.append(Ignored("tenant_id", str(mapping["tenant_id"]), origin, "SGLang knows tenants since 0.5.17"))
    if given.source is Source.file:
        own = [name for name, _, _ in ENGINE_ROWS if name in mapping]
        why = "SGLang takes this from extra_config only"
        found += [Ignored(name, str(mapping[name]), origin, why) for name in own]
    return found


def _not_known(name: str, mapping: Mapping[str, Any], origin: str) -> Ignored:
    return Ignored(name, str(mapping[name]), origin, "SGLang does not know it")


def _unknown(mapping: Mapping[str, Any]) -> list[str]:
    known = {row.name for row in ROWS} | {name for name, _, _ in ENGINE_ROWS} | _ALSO_UNDERSTOOD
    return sorted(name for name in mapping if name not in known)
