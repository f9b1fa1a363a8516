"""Another Python is asked for what it has, in a process of its own."""

import os
import sys

import pytest

from hicachectl.checks import inside
from hicachectl.exits import UnreachableError


def test_this_python_tells_its_packages():
    """A Python tells its release and packages, and why a client library cannot be loaded, or what it can do."""
    found = inside.look(sys.executable, os.environ)
    assert found.python_version == ".".join(map(str, sys.version_info[:3]))
    assert bool(found.mooncake_error) != bool(found.setup_signature)


def test_a_python_that_is_none():
    """What is no Python is unreachable, whether it is missing or answers something else."""
    with pytest.raises(UnreachableError, match="/no/such"):
        inside.look("/no/such", os.environ)
    with pytest.raises(UnreachableError, match="did not answer as it should"):
        inside.look("/bin/echo", os.environ)


def sglang(folder, body: str) -> dict[str, str]:
    """An environment with a package in SGLang's place, whose parser is BODY."""
    package = folder / "sglang" / "srt"
    package.mkdir(parents=True)
    for path in (folder / "sglang", package):
        (path / "__init__.py").write_text("")
    (package / "server_args.py").write_text(body)
    return {**os.environ, "PYTHONPATH": str(folder)}


PARSER = """
print("noise on stdout")
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--hicache-storage-backend", choices=["mooncake"])
        parser.add_argument("--hook", type=lambda text: object())
"""


def test_the_parser_of_that_python_reads_the_words(tmp_path):
    """The values are those of the package's own parser; what it prints does not disturb, and what is no plain value is left out."""
    parsed = inside.parse(
        sys.executable, sglang(tmp_path, PARSER), ["--hicache-storage-backend", "mooncake", "--hook", "x"]
    )
    assert parsed.values == {"hicache_storage_backend": "mooncake"}


def test_a_refusal_comes_in_the_parsers_words(tmp_path):
    """A refusal carries the parser's own last line."""
    parsed = inside.parse(sys.executable, sglang(tmp_path, PARSER), ["--hicache-storage-backend", "moncake"])
    assert parsed.values is None
    assert "invalid choice: 'moncake'" in parsed.refused


@pytest.mark.parametrize("body", ["raise ImportError('libfoo')", "import os; os._exit(3)", "import os; os.abort()"])
def test_a_parser_that_cannot_be_had(tmp_path, body):
    """A package that cannot be imported, or that ends the process, leaves the question open."""
    parsed = inside.parse(sys.executable, sglang(tmp_path, body), [])
    assert parsed.values is None
    assert parsed.unknown
    assert not parsed.refused
