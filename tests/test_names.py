"""Test files are imported by their name alone, so no two of them may share one."""

from collections import Counter
from pathlib import Path


def test_no_two_modules_of_the_tests_share_a_name() -> None:
    """A second file of the same name would stop the whole collection; conftest.py is pytest's own."""
    folder = Path(__file__).parent
    # The benches are a package of their own that pytest does not collect.
    files = [path for path in folder.rglob("*.py") if "bench" not in path.relative_to(folder).parts[:-1]]
    names = Counter(path.name for path in files if path.name not in ("conftest.py", "__init__.py", "__main__.py"))
    assert [name for name, count in names.items() if count > 1] == []
