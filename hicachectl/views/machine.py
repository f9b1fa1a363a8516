"""JSON documents; nothing is drawn, so nothing that draws is imported."""

import json
from typing import Any

import msgspec


def document(command: str, body: dict[str, Any]) -> str:
    """BODY as the one JSON document of COMMAND, with its schema."""
    return indented({"schema": f"hicachectl/{command}/1", **body}) + "\n"


def indented(body: object, depth: int = 0) -> str:
    """BODY as ASCII JSON, two blanks a level; lines after the first begin as at DEPTH levels inside a document."""
    # The standard library's own indenting runs in Python: it would take longer than finding out what there is to say.
    text = msgspec.json.format(json.dumps(body), indent=2)
    return text.replace("\n", "\n" + "  " * depth) if depth else text
