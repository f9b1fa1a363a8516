"""How SGLang reads one value of the store's configuration: texts, numbers, flags, sizes, and the files they stand in."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hicachectl.exits import BadInputError, UnreachableError

_TRUE = frozenset({"true", "1", "yes", "y"})
_FALSE = frozenset({"false", "0", "no", "n"})


def text(value: str) -> str:
    """A text stays as it is."""
    return value


def integer(value: str) -> int:
    """A whole number; ValueError otherwise (sglang/srt/environ.py, EnvInt)."""
    return int(value)


def flag(value: str) -> bool:
    """true, 1, yes, y or false, 0, no, n in any case; ValueError otherwise (sglang/srt/environ.py, EnvBool)."""
    lowered = value.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(value)


def segment_bytes(value: Any) -> int:
    """Bytes of a segment size: a number, digits, or digits and `gb`; TypeError or ValueError where SGLang fails too.

    Source: `_parse_global_segment_size` in mooncake_store.py. There is no other unit, and no fraction.
    """
    if not isinstance(value, str):
        return int(value)
    lowered = value.strip().lower()
    return int(lowered[:-2].strip()) << 30 if lowered.endswith("gb") else int(lowered)


def odd_type(read: Callable[[str], Any], value: Any) -> str:
    """A remark on a value of a file whose type is not the setting's: SGLang does not convert it."""
    readers: dict[Callable[[str], Any], type] = {flag: bool, integer: int}
    wanted = readers.get(read)
    if wanted is None or isinstance(value, wanted):
        return ""
    if wanted is bool and isinstance(value, str) and value:
        return f"a text, not a JSON boolean: SGLang takes any text but the empty one as true, {value!r} too"
    return f"a {type(value).__name__}, not the {wanted.__name__} that SGLang expects"


def bytes_of_file(path: Path, named_by: str) -> bytes:
    """The file's content; UnreachableError where it cannot be had, BadInputError for a device, which may never end."""
    if path.is_char_device() or path.is_block_device():
        raise BadInputError(f"{path}, which {named_by} names, is a device, no file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreachableError(f"cannot read {path}, which {named_by} names: {error.strerror or error}") from error


def mapping_of_json(content: bytes, name: str) -> dict[str, Any]:
    """A JSON object; BadInputError for anything else."""
    try:
        decoded = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{name} is no valid JSON: {error}") from error
    return _mapping(decoded, name)


def mapping_of_file(path: Path, name: str) -> dict[str, Any]:
    """The mapping in a .json, .toml or .yaml file, told apart by its ending as SGLang does."""
    content = bytes_of_file(path, name)
    ending = path.suffix.lower()
    if ending == ".json":
        return mapping_of_json(content, str(path))
    if ending == ".toml":
        return _mapping(_toml(content, path), str(path))
    if ending in {".yaml", ".yml"}:
        return _mapping(_yaml(content, path), str(path))
    raise BadInputError(f"{path}: SGLang reads .json, .toml and .yaml files as extra configuration, not '{ending}'")


def _mapping(decoded: Any, name: str) -> dict[str, Any]:
    if not isinstance(decoded, dict):
        raise BadInputError(f"{name} holds a {type(decoded).__name__}, where a mapping of settings is expected")
    return decoded


def _toml(content: bytes, path: Path) -> Any:
    if sys.version_info < (3, 11):
        raise UnreachableError(f"{path}: reading TOML needs Python 3.11; use a .json file")
    tomllib = importlib.import_module("tomllib")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path} is no valid TOML: {error}") from error


def _yaml(content: bytes, path: Path) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise UnreachableError(f"{path}: reading YAML needs the package pyyaml; use a .json file") from error
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInputError(f"{path} is no valid YAML: {error}") from error
