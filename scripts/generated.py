"""Writes a page that a script generates, or with `--check` says whether it is up to date."""  # noqa: INP001

import sys
from pathlib import Path


def put(page: Path, text: str) -> int:
    """Make PAGE hold TEXT; with `--check` on the command line only compare them. The exit code: 1 where the page is out of date."""
    if "--check" not in sys.argv[1:]:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"docs/{page.name} is out of date: run python scripts/{Path(sys.argv[0]).name}\n")
    return 1
