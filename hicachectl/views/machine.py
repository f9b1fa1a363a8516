"""JSON documents; nothing is drawn, so nothing that draws is imported."""

import json
from typing import Any

import msgspec


def document(command: str, body: dict[str, Any]) -> str:
    """BODY as the one JSON document of COMMAND, with its schema."""
    return indented({"schema": f"hicachectl/{command}/1", **body}) + "\n"


def indented(body: object, depth: int = 0, *, everyday: bool = False) -> str:
    """BODY as ASCII JSON, two blanks a level; lines after the first begin as at DEPTH levels inside a document.

    EVERYDAY says that every fraction in it is a measured one, of a moderate size: these are written in one way by whoever writes them.
    """
    # The standard library's own indenting runs in Python: it would take longer than finding out what there is to say.
    text = msgspec.json.format(ascii_json(body) if everyday else json.dumps(body).encode("ascii"), indent=2).decode("ascii")
    return text.replace("\n", "\n" + "  " * depth) if depth else text


def ascii_json(body: object) -> bytes:
    """BODY as ASCII JSON, which no terminal obeys; where all of its text is ASCII, msgspec's is the standard library's, in a third of the time."""
    found = msgspec.json.encode(body)
    return found if found.isascii() and b"\x7f" not in found else json.dumps(body).encode("ascii")
