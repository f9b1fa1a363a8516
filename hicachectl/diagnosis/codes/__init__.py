"""The catalogue: every finding code, one row each.

The rows are data, one file a letter; their order there is the order in which causes rank. The ids follow the list of
silent skips of SGLang HiCache and Mooncake; codes of our own start at 100 in their letter. An id never gets a second
meaning.
"""

import re
from importlib import resources

from hicachectl.diagnosis.codes import (
    attach,
    attribution,
    disaggregation,
    eviction,
    load_back,
    mismatch,
    pipelines,
    prefetch,
    write,
)
from hicachectl.diagnosis.codes.row import EVIDENCE, LETTERS, LEVELS, Code, Detected, Level

__all__ = ["ALL", "EVIDENCE", "LETTERS", "LEVELS", "Code", "Detected", "Level", "get", "listed", "page", "rank"]

# Causes first: a later tier's loss follows from an earlier one's, so the first finding is the one to act on.
_RANKED: tuple[Code, ...] = (
    *attach.ROWS,
    *mismatch.ROWS,
    *write.ROWS,
    *eviction.ROWS,
    *prefetch.ROWS,
    *load_back.ROWS,
    *attribution.ROWS,
    *disaggregation.ROWS,
    *pipelines.ROWS,
)

ALL: dict[str, Code] = {row.id: row for row in _RANKED}

_RANK: dict[str, int] = {row.id: place for place, row in enumerate(_RANKED)}
_SHAPE = re.compile(r"(?:HC-?)?([A-Z])(\d{1,3})", re.IGNORECASE)


def canonical(text: str) -> str:
    """TEXT as an id: `R12`, `hc-r12` and `HC-R12` are one code; a single digit gets its zero. Other text as it is."""
    match = _SHAPE.fullmatch(text.strip())
    return f"HC-{match[1].upper()}{int(match[2]):02d}" if match else text.strip()


def get(code: str) -> Code:
    """The row of CODE, in any spelling; KeyError when no row has it."""
    return ALL[canonical(code)]


def page(code: str) -> str:
    """The page of CODE as Markdown, its level, versions and proof under the title; KeyError for an unknown code."""
    row = get(code)
    text = (resources.files("hicachectl.diagnosis") / "pages" / f"{row.id}.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    level = (
        row.level if row.level_if_serving is None else f"{row.level} ({row.level_if_serving} while the backend serves)"
    )
    return f"{title}\n\n*{level} - SGLang {row.versions} - {row.proof}*\n{body}"


def rank(code: str) -> int:
    """The place of CODE among causes, lowest first: A, K, W, E, R, L, G, then P and X; KeyError for an unknown code."""
    return _RANK[canonical(code)]


def listed() -> list[Code]:
    """Every row for a reader: by letter in the order of the catalogue, then by number."""
    letters = list(LETTERS)
    return sorted(ALL.values(), key=lambda row: (letters.index(row.letter), row.number))
