"""The benchmarks' own command line, and the page that holds their figures."""

import subprocess
import sys

import invoke
import pytest

from tests.bench.__main__ import PAGE, PARTS, with_figures


@pytest.mark.parametrize("word", ["recrod", "--wirte", "--columns=many", "1e6"])
def test_a_slip_of_the_keyboard_starts_nothing(word: str) -> None:
    """A word that no part takes is named, with those that are taken, and nothing is measured."""
    done = subprocess.run([sys.executable, "-m", "tests.bench", "keys", word], cwd=invoke.ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{word}: expected record, write, ")


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_its_place_on_the_page(part: str) -> None:
    """What a part prints replaces its own figures, and nothing else."""
    page = PAGE.read_text()
    made = with_figures(page, part, "a machine", ["a figure\n"])
    assert "\na machine\n\n```text\na figure\n```\n<!-- end" in made
    assert with_figures(made, part, "a machine", ["a figure\n"]) == made
    assert [name for name in PARTS if f"<!-- figures of {name} -->" in made] == list(PARTS)
