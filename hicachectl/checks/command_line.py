"""Does SGLang's own parser take the command line."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, info, ok
from hicachectl.checks.scene import Scene


def look(scene: Scene) -> Iterator[Result]:
    """A refusal is an error in SGLang's own words."""
    parsed = scene.parsed
    if parsed is None:
        return
    if parsed.refused:
        yield error(
            "SGLang's own parser refuses the command line.",
            _code(parsed.refused),
            "Correct the argument; the engine would end at once.",
            said=parsed.refused,
        )
    elif parsed.values is None:
        yield info(
            "SGLang's own parser could not be asked; the arguments were read by the table of this tool.",
            why=parsed.unknown,
        )
    else:
        yield ok("SGLang's own parser takes the command line.")


def _code(said: str) -> str:
    return "HC-A01" if "--hicache-storage-backend:" in said else ""
