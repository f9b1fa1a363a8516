"""`explain` as JSON, from rows: light, for one request is answered from an index in no time."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hicachectl.views.machine import indented

if TYPE_CHECKING:
    from hicachectl.diagnosis.finding import Finding

Row = dict[str, Any]
TOKENS = "(tokens)"
"""What a finding cost, for the text alone."""


def as_json(head: Row, requests: Iterable[Row], findings: Callable[[], Iterable[Row]]) -> Iterator[str]:
    """The document `hicachectl/explain/1` in pieces, each as soon as it is known; FINDINGS is asked for when all requests are through."""
    yield indented({"schema": "hicachectl/explain/1", **head}).removesuffix("\n}")
    yield from _list("requests", (indented(row, 2, everyday=True) for row in requests))
    yield from _list("findings", (indented(without_tokens(each), 2) for each in findings()))
    yield "\n}\n"


def _list(name: str, rows: Iterable[str]) -> Iterator[str]:
    before, end = f',\n  "{name}": [\n    ', f',\n  "{name}": []'
    for row in rows:
        yield before + row
        before, end = ",\n    ", "\n  ]"
    yield end


def without_tokens(finding: Row) -> Row:
    """FINDING as the document has it."""
    return {key: value for key, value in finding.items() if key != TOKENS}


def finding_row(each: "Finding") -> dict[str, Any]:
    """One finding, with what it cost."""
    return {
        "code": each.code,
        "level": each.level,
        "title": each.title,
        "rids": each.rids,
        "engines": each.engines,
        "args": each.args,
        "evidence": each.evidence,
        "certain": each.certain,
        "folded": each.folded,
        "next": each.next,
        TOKENS: each.tokens,
    }
