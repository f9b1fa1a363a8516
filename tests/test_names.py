"""Test files are imported by their name alone, so no two of them may share one."""

from collections import Counter
from pathlib import Path


def test_no_two_modules_of_the_tests_share_a_name() -> None:
    """A second file of the same name would stop the whole collection; conftest.py is pytest's own."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py") if path.name not in ("conftest.py", "__init__.py", "__main__.py"))
    assert [name for name, count in names.items() if count > 1] == []
