"""The tokens that are asked for: numbers as typed, from a file or from standard input, or a text and its tokenizer."""

import importlib
import re
import sys
from array import array
from pathlib import Path
from typing import Any

from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.keys.tokens import packed, parse


def numbers(given: str) -> "array[int]":
    """Token ids: `-` reads standard input, the name of a file reads the file, anything else is taken for the numbers.

    UnreachableError where there is no such file, BadInputError for what is no numbers.
    """
    if given == "-":
        return parse(_text(sys.stdin.buffer.read(), "standard input"))
    path = _file(given)
    if path is None:
        if _is_path(given):
            raise UnreachableError(f"there is no file {given}: --tokens takes numbers, a file of numbers, or - for standard input")
        return parse(given)
    try:
        return parse(_text(path.read_bytes(), str(path)))
    except OSError as error:
        raise UnreachableError(f"cannot read {path}: {error.strerror or error}") from error


def text(prompt: str, tokenizer: str) -> "array[int]":
    """PROMPT's token ids by TOKENIZER, a model's folder, a tokenizer.json or a model's name, special tokens as the tokenizer adds them.

    Uses transformers where it is installed, as SGLang does, and otherwise tokenizers for a local tokenizer.json.
    """
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        return _by_tokenizers(prompt, tokenizer)
    path = Path(tokenizer)
    try:
        if path.is_file():
            loaded = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
        else:
            loaded = transformers.AutoTokenizer.from_pretrained(tokenizer)
        return packed(loaded.encode(prompt))
    except (OSError, ValueError) as error:
        raise UnreachableError(f"no tokenizer can be loaded from '{tokenizer}': {error}") from error
    except Exception as error:
        # A damaged tokenizer.json raises nothing more exact than Exception.
        raise BadInputError(f"'{tokenizer}' holds no tokenizer that can be read: {error}") from error


def _by_tokenizers(prompt: str, tokenizer: str) -> "array[int]":
    path = Path(tokenizer)
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        tokenizers: Any = importlib.import_module("tokenizers")
    except ImportError as error:
        raise UnreachableError("--text needs the package transformers or tokenizers; --tokens does not") from error
    if not path.is_file():
        raise UnreachableError(
            f"there is no tokenizer.json at '{tokenizer}', and the package transformers is not installed"
        )
    try:
        return packed(tokenizers.Tokenizer.from_file(str(path)).encode(prompt).ids)
    except Exception as error:
        # The package raises nothing more exact than Exception for a file that it cannot read.
        raise BadInputError(f"{path} is no tokenizer: {error}") from error


def _is_path(given: str) -> bool:
    """Whether GIVEN names a file rather than numbers: what has a slash, or begins with a letter and has no separator."""
    return "/" in given or re.fullmatch(r"[^\W\d_][^\s,]*", given) is not None


def _file(given: str) -> Path | None:
    try:
        return Path(given) if Path(given).is_file() or Path(given).is_fifo() else None
    except (OSError, ValueError):
        return None  # too long for a name, or with a zero byte in it


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name} is no text: expected numbers separated by commas or white space") from error
