"""The reading of the store's configuration against the installed SGLang's own reading."""

import dataclasses
import importlib.metadata
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hicachectl.exits import OperatorError
from hicachectl.mooncake.config import FILE_VARIABLE, ROWS, Source, read

pytestmark = pytest.mark.real

mooncake_store = pytest.importorskip("sglang.srt.mem_cache.storage.mooncake_store.mooncake_store")
SGLANG = importlib.metadata.version("sglang")

VARIABLES = [row.variable for row in ROWS] + ["LOCAL_HOSTNAME"]
TEXTS = st.sampled_from(
    ["", "a:1", "tcp", "true", "no", "maybe", "9100", "2gb", " 3GB ", "gb", "1073741824", "512mb", "mlx5_0"]
)
JSON_VALUES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(0, 1 << 40))
MAPPINGS = st.dictionaries(st.sampled_from([row.name for row in ROWS]), JSON_VALUES, max_size=6)
ENVIRONMENTS = st.dictionaries(st.sampled_from(VARIABLES), TEXTS, max_size=6)


@contextmanager
def only(environment: dict[str, str]) -> Iterator[None]:
    """The process's environment with ours of these variables alone."""
    kept = {name: os.environ.pop(name) for name in [*VARIABLES, FILE_VARIABLE] if name in os.environ}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in environment:
            os.environ.pop(name, None)
        os.environ.update(kept)


def theirs(environment: dict[str, str], extra: dict[str, Any]) -> dict[str, Any] | None:
    """What SGLang itself loads, or None where it refuses."""
    with only(environment), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = mooncake_store.MooncakeBaseStore()._load_config(SimpleNamespace(extra_config=dict(extra)))
        except (ValueError, TypeError, RuntimeError):
            return None
    return dataclasses.asdict(loaded)


def ours(environment: dict[str, str], extra: dict[str, Any]) -> dict[str, Any] | None:
    """What we read, or None where we refuse."""
    try:
        config = read(environment, json.dumps(extra), SGLANG)
    except OperatorError:
        return None
    names = {field.name for field in dataclasses.fields(mooncake_store.MooncakeStoreConfig)}
    return {name: getattr(config, name).value for name in names}


@given(ENVIRONMENTS, MAPPINGS)
@settings(max_examples=3000, deadline=None)
def test_environment_and_extra_config_are_read_alike(environment: dict[str, str], extra: dict[str, Any]) -> None:
    """For random variables and extra configurations, every value is SGLang's own, or both refuse."""
    assert ours(environment, extra) == theirs(environment, extra)


@given(ENVIRONMENTS, MAPPINGS, MAPPINGS)
@settings(max_examples=1500, deadline=None)
def test_a_file_is_read_alike(
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, str],
    extra: dict[str, Any],
    content: dict[str, Any],
) -> None:
    """With a configuration file beside random variables and extra configurations, every value is SGLang's own, or both refuse."""
    path = Path(tmp_path_factory.getbasetemp()) / "mooncake.json"
    path.write_text(json.dumps(content))
    environment = {**environment, FILE_VARIABLE: str(path)}
    assert ours(environment, extra) == theirs(environment, extra)


@given(ENVIRONMENTS, MAPPINGS)
@settings(max_examples=500, deadline=None)
def test_what_is_said_to_be_ignored_changes_nothing(environment: dict[str, str], extra: dict[str, Any]) -> None:
    """Leaving out every value that is said to be ignored leaves SGLang's own reading as it is."""
    try:
        config = read(environment, json.dumps(extra), SGLANG)
    except OperatorError:
        return
    dropped = {each.name for each in config.ignored}
    if config.source is not Source.extra_config:
        extra = {name: value for name, value in extra.items() if name not in dropped}
    kept = {name: value for name, value in environment.items() if name not in dropped}
    assert theirs(kept, extra) == ours(environment, extra)
