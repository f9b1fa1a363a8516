"""The engine's command line as doctor reads it."""

import pytest

from hicachectl.checks import arguments
from hicachectl.checks.scene import of_command
from hicachectl.exits import BadInputError


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["python", "-m", "sglang.launch_server", "--tp", "2"], ["--tp", "2"]),
        (["env", "A=b", "/venv/bin/python3.11", "-u", "-m", "sglang.launch_server"], []),
        (["sglang", "serve", "--model-path", "x"], ["--model-path", "x"]),
        (["python", "-m", "sglang", "serve", "--tp", "2"], ["--tp", "2"]),
        (["python", "/src/sglang/launch_server.py", "--tp", "2"], ["--tp", "2"]),
        (["python", "my_engine.py", "--tp", "2"], None),
        (["sglang", "version"], None),
        ([], None),
    ],
)
def test_where_the_engines_words_begin(command, words):
    """The engine's own words follow the module or the subcommand that starts it; of another program they are unknown."""
    assert arguments.words_of(command) == words


def test_values_have_origins():
    """What is typed has its origin, the rest its default."""
    given = arguments.parse(
        ["--tp", "2", "--hicache-ratio=1.5", "--enable-hicache", "--unknown", "x", "--hicache-size", "3"]
    )
    assert (given["tp_size"], given["hicache_ratio"], given["enable_hierarchical_cache"], given["hicache_size"]) == (
        2,
        1.5,
        True,
        3,
    )
    assert (given.origin("tp_size"), given.origin("page_size")) == ("command line", "default")
    assert given["hicache_mem_layout"] == "page_first"
    assert given.ranks == 2


def test_a_value_of_the_wrong_form_is_bad_input():
    """A number that is none is told as the user's input."""
    with pytest.raises(BadInputError, match="--hicache-ratio"):
        arguments.parse(["--hicache-ratio", "much"])


def test_sglangs_own_reading_keeps_the_users_origins():
    """Where SGLang's parser tells the values, what was typed stays typed, and other values that differ are the parser's."""
    typed = arguments.parse(["--tp", "2"])
    told = arguments.told(
        {"tp_size": 2, "hicache_ratio": 3.0, "page_size": None, "unrelated": 1}, arguments.ENGINE, typed
    )
    assert (told.origin("tp_size"), told.origin("hicache_ratio"), told.origin("page_size")) == (
        "command line",
        arguments.ENGINE,
        "default",
    )


def test_assignments_in_front_of_the_command_count():
    """Variables that stand before the command belong to its environment, as in a shell."""
    subject = of_command(
        ["MOONCAKE_MASTER=a:1", "env", "MOONCAKE_PROTOCOL=tcp", "python3", "-m", "sglang.launch_server"],
        {"PATH": "/usr/bin:/bin"},
        "/other",
    )
    assert subject.environment["MOONCAKE_MASTER"] == "a:1"
    assert subject.environment["MOONCAKE_PROTOCOL"] == "tcp"
    assert subject.words == ()


def test_a_command_of_unknown_python_is_said():
    """Where the Python cannot be told, ours is asked and the reader knows."""
    subject = of_command(["no-such-program"], {"PATH": "/nowhere"}, "/ours")
    assert subject.python == "/ours"
    assert "cannot be told" in subject.remarks[0]
    assert any("arguments are unknown" in remark for remark in subject.remarks)
