"""What both column stores can do: answer SQL row by row, and take rows."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from hicachectl.exits import UnreachableError, one_line
from tracers import vocabulary as v

TABLE = "otel_traces"
"""Name that the exporter gives the table where nobody sets `traces_table_name`."""
_WORD = re.compile(r"\$(\w+)")
_NAME = re.compile(r"\w+")

Row = TypeVar("Row")


class Sql(str):
    """A piece of SQL that goes into a question as it is, its own words filled in."""

    __slots__ = ()


PIECES: dict[str, str] = {
    "page_key": f".{{{v.PAGE_KEY_DIGITS}}}",
    "block_key": f".{{{v.FINGERPRINT_DIGITS}}}",
    "page_numbers": Sql("arrayMap(key -> cityHash64(key), extractAll(SpanAttributes[$PAGE_KEYS], $page_key))"),
    "node_numbers": Sql(
        "arrayConcat(JSONExtract(SpanAttributes[$NODES], 'Array(Int64)'), arrayMap(node -> JSONExtractInt(node, 'intValue'), JSONExtractArrayRaw(SpanAttributes[$NODES], 'values')))"
    ),
    "beginning": Sql("[cityHash64(substring(SpanAttributes[$FINGERPRINT], 1, $FINGERPRINT_DIGITS)), cityHash64(substring(SpanAttributes[$PROMPT_PAGE_KEYS], 1, $PAGE_KEY_DIGITS))]"),
}
"""Words that every question may use: the pattern of one digest of those that an attribute holds without a separator, and numbers for a span's pages, for its nodes and for how its prompt begins.

`extractAll` cuts digests out: a lambda that takes `substring` would have the whole text once for each of them.
"""


class Database(ABC):
    """One table of spans; every question is SQL that answers in lines of JSON."""

    whole: Sql = Sql("")
    """What ends a question that an index or a projection of ours can answer."""

    def __init__(self, name: str, table: str = TABLE) -> None:
        self.name = name
        """How it is shown: without a password."""
        self.table = table

    @abstractmethod
    def lines(self, sql: str) -> Iterator[bytes]:
        """Lines of the answer to SQL, as they come; UnreachableError where it is not answered."""

    @abstractmethod
    def run(self, sql: str) -> None:
        """Carry SQL out that answers nothing."""

    @abstractmethod
    def insert(self, rows: Iterable[bytes]) -> None:
        """Add ROWS, each a JSON object, in one go."""

    def ask(self, package: str, question: str, row: type[Row], **told: Any) -> Iterator[Row]:
        """Rows that the question in the file PACKAGE/QUESTION.sql gives; ROW is a struct that is written as an array."""
        sql = filled(read(package, question), self.table, {"whole": self.whole, **told})
        decode = msgspec.json.Decoder(row, strict=False).decode
        for line in self.lines(f"{sql}\nFORMAT JSONCompactEachRow"):
            try:
                yield decode(line)
            except (msgspec.MsgspecError, UnicodeError) as error:
                # A server that fails after it has begun to answer says why in the place of the next row.
                raise UnreachableError(f"{self.name} gave up: {one_line(line[:300].decode(errors='replace'))}") from error


def read(package: str, name: str) -> str:
    """The text of a question."""
    return (files(package) / "sql" / f"{name}.sql").read_text()


def filled(sql: str, table: str, told: dict[str, Any]) -> str:
    """SQL with its words filled in: $TABLE, $NAMES of the vocabulary in capitals, and what is TOLD, each as a literal."""

    def word(match: re.Match[str]) -> str:
        name = match[1]
        if name == "TABLE":
            return f"`{table}`"
        value = told[name] if name in told else PIECES[name] if name in PIECES else getattr(v, name)
        return _WORD.sub(word, value) if isinstance(value, Sql) else literal(value)

    return _WORD.sub(word, "\n".join(line for line in sql.splitlines() if not line.startswith("--")))


def literal(value: Any) -> str:
    """VALUE as SQL writes it: a string, a number, or a list for IN."""
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
        return f"'{text}'"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"({', '.join(literal(each) for each in value) or 'NULL'})"
    return str(int(value))


def array(values: Iterable[Any]) -> Sql:
    """VALUES as an array of SQL."""
    return Sql(f"[{', '.join(map(literal, values))}]")


def is_name(text: str) -> bool:
    """Whether TEXT can be the name of a table or a database."""
    return _NAME.fullmatch(text) is not None
