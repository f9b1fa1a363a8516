"""Strings of a recording come from outside, request ids first: whatever they hold, they drive no terminal and forge no line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import invoke
import pytest
from recordings import Recording

from hicachectl import exits
from tracers import vocabulary as v

SAMPLE = Path(__file__).parents[1] / "samples" / "faults"
HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b31m\r\nhicachectl: forged\x00\x7f\u202e\u2066\u200b\u2028\ufeff\U000e0041"
KEPT = frozenset({v.OUTCOME, v.REASON, v.PAGE_KEYS, v.PROMPT_PAGE_KEYS, v.FINGERPRINT, v.OPERATION})
"""Attributes by which spans are understood: without them there would be little to say."""
RID = "\x1b[2J"
DRAWN = (
    ("explain",), ("show",), ("show", "--request", RID), ("points",), ("fleet",), ("probe-keys", "--no-store"), ("runs",),
)  # fmt: skip
DOCUMENTS = (*((*words, "-o", "json") for words in DRAWN), ("export", "--to", "perfetto"))


def hostile(value: Any, key: str = "") -> Any:
    """VALUE, JSON of a recording, with every string in it hostile but those that must be read as what they are."""
    if isinstance(value, dict) and set(value) == {"key", "value"}:
        return value if value["key"] in KEPT else {"key": value["key"], "value": hostile(value["value"], "stringValue")}
    if isinstance(value, dict):
        return {name: hostile(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, key) for each in value]
    return HOSTILE + value if isinstance(value, str) and key not in ("intValue", "traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "name") else value


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of the real engine, every string in it hostile; the only one under the home folder."""
    monkeypatch.setenv("HICACHECTL_HOME", str(tmp_path))
    folder = tmp_path / "20261129T183040.973Z"
    folder.mkdir()
    for path in SAMPLE.iterdir():
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        (folder / path.name).write_text("".join(json.dumps(hostile(json.loads(line))) + "\n" for line in lines))
    return folder


def words_of(words: tuple[str, ...], run: Path) -> list[str]:
    """The command line that reads RUN."""
    command, *options = words
    if command == "probe-keys":
        document = json.loads(invoke.inside("show", str(run), "-o", "json").stdout)
        return [command, "--run", str(run), "--request", next(row["rid"] for row in document["requests"] if row["prompt_tokens"]), *options]
    return [command, *([] if command == "runs" else [str(run)]), *options]


@pytest.mark.parametrize("words", DRAWN, ids=" ".join)
def test_what_is_drawn_holds_printable_characters_alone(words: tuple[str, ...], run: Path) -> None:
    """Every character that could move a cursor, begin a line, turn the direction of writing, or be invisible is written as its escape."""
    done = invoke.inside(*words_of(words, run))
    assert done.returncode in (exits.DONE, exits.FOUND), done.stderr
    assert "\\x1b[2J" in done.stdout
    assert {char for char in done.stdout + done.stderr if not char.isprintable()} <= {"\n"}
    assert not any(line.startswith("hicachectl: forged") for line in done.stdout.splitlines())


@pytest.mark.parametrize("words", DOCUMENTS, ids=" ".join)
def test_documents_are_ascii_and_hold_the_strings_as_they_were(words: tuple[str, ...], run: Path) -> None:
    """JSON for programs has every string unchanged, and escapes what a terminal would obey."""
    done = invoke.inside(*words_of(words, run))
    assert done.returncode in (exits.DONE, exits.FOUND), done.stderr
    assert done.stdout.isascii()
    assert {char for char in done.stdout if not char.isprintable()} <= {"\n"}
    assert any(HOSTILE in text for text in strings(json.loads(done.stdout)))


def strings(value: Any) -> Iterator[str]:
    """Every string in VALUE."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


@pytest.mark.parametrize("number", ["9" * 5000, "\u00b2", "\u0663", "1_000", ""], ids=["long", "superscript", "foreign", "underscore", "empty"])
def test_text_that_only_looks_like_a_number_is_read_as_none(number: str, tmp_path: Path) -> None:
    """Where a number is read from a text of the recording (start and process of an engine, a get that hangs, a release), any text will do."""
    made = Recording()
    for told in ({v.R_ENGINE: f"h:1:{number}"}, {v.R_PID: number}, {v.R_SGLANG: f"0.5.{number}"}, {v.R_TP_RANK: number}):
        engine = made.engine(pid=len(made.engines) + 1, resource=told)
        engine.ledger(closed=False, running=[f"{number} rid key"], versions={"sglang": f"0.5.{number}", "mooncake": number})
        engine.span(v.PREFILL, 1, 2, rid="a", attributes={v.TOKENS: number, v.EXTRA_KEY: number})
        engine.span(v.LEDGER, 3, attributes={v.SEEN: number, v.WRITTEN: number, v.ENDED: number})
    run = str(made.write(tmp_path / "run"))
    for words in (("explain", run), ("show", run), ("show", run, "--request", "a"), ("points", run), ("fleet", run), ("export", run, "--to", "perfetto")):
        assert invoke.inside(*words).returncode in (exits.DONE, exits.FOUND), words
