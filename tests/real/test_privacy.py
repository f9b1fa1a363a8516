"""Nothing of a prompt is in a recording or in what is said of it: neither token ids nor text, in any form that can be searched for."""

import struct
from collections.abc import Iterator
from pathlib import Path

import engines
import invoke
import pytest
from installed import needs

from hicachectl.index.ask import NAME, key_of
from hicachectl.index.build import build

pytestmark = pytest.mark.real
parquet = pytest.importorskip("pyarrow.parquet")

RUN = 6
"""So many tokens in a row do not come about by chance."""
PROMPT = [(7919 * index + 104_729) % 1021 + 3 for index in range(450)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A recording of requests, and all their token ids, those of the answers included."""
    needs("sglang", "mooncake")
    run = tmp_path_factory.mktemp("private") / "run"
    plan = [
        engines.generate(PROMPT, rid="one", new=16),
        engines.written(28 * 2),
        engines.flush(),
        engines.generate([*PROMPT, *PROMPT[:40]], rid="two", new=16),
    ]
    played = engines.play(plan, before=("trace", "--run", str(run), "--"))
    return run, [*PROMPT, *played.answers()[0]["output"]]


def forms(tokens: list[int]) -> Iterator[bytes]:
    """TOKENS as text with any separator that is common, and packed with any width and order."""
    for separator in (",", ", ", " ", "\n", '","', '", "', "-", "_", "|", ";", ""):
        yield separator.join(map(str, tokens)).encode()
    for separator in (",", " "):
        yield separator.join(f"{token:x}" for token in tokens).encode()
    for code in ("<%dI", ">%dI", "<%dH", ">%dH", "<%dq", ">%dq"):
        yield struct.pack(code % len(tokens), *tokens)
        yield struct.pack(code % len(tokens), *tokens).hex().encode()
    yield "".join(f'{{"intValue":"{token}"}},' for token in tokens).encode()
    yield "".join(f'{{"intValue": "{token}"}}, ' for token in tokens).encode()


def said(run: Path) -> dict[str, bytes]:
    """Every file of the recording, and all that is said and exported of it."""
    found: dict[str, bytes] = {}
    for words in (
        ("explain", str(run), "--fail-on", "never"),
        ("explain", str(run), "--fail-on", "never", "-o", "json"),
        ("show", str(run)),
        ("show", str(run), "--request", "one"),
        ("show", str(run), "--request", "one", "-o", "json"),
        ("points", str(run), "-o", "json"),
        ("fleet", str(run), "-o", "json"),
        ("probe-keys", "--run", str(run), "--request", "one", "--no-store"),
        ("export", str(run), "--to", "otlp"),
        ("export", str(run), "--to", "perfetto"),
    ):
        done = invoke.hicachectl(*words)
        assert done.returncode == 0, (words, done.stderr)
        found[" ".join(word for word in words if word != str(run))] = (done.stdout + done.stderr).encode("utf-8", "surrogateescape")
    assert build(run, run / NAME, key_of(run))
    found |= {path.name: path.read_bytes() for path in run.iterdir()}
    table = run.parent / "spans.parquet"
    assert invoke.hicachectl("export", str(run), "--to", "parquet", "--target", str(table)).returncode == 0
    # What is packed in the file can be searched for once it is unpacked.
    found["export --to parquet"] = repr(parquet.read_table(table).to_pylist()).encode()
    return found


def traces(texts: dict[str, bytes], tokens: list[int]) -> list[tuple[str, bytes]]:
    """Where a run of TOKENS stands in TEXTS, in whatever form."""
    every = [form for start in range(len(tokens) - RUN) for form in forms(tokens[start : start + RUN])]
    return [(name, form) for name, text in texts.items() for form in every if form in text]


def test_no_tokens_are_in_a_recording_or_in_what_is_said_of_it(recorded: tuple[Path, list[int]]) -> None:
    """Every byte is searched for every run of a few tokens of prompt and answer, in every form."""
    run, tokens = recorded
    texts = said(run)
    assert sum(map(len, texts.values())) > 50_000
    assert traces(texts, tokens) == []


def test_the_search_would_find_them(recorded: tuple[Path, list[int]]) -> None:
    """Tokens planted in a copy of the recording are found in each of the forms, so that finding none means something."""
    run, tokens = recorded
    clean = b"".join(path.read_bytes() for path in run.glob("spans-*"))
    part = tokens[100 : 100 + RUN + 1]
    for number, form in enumerate(forms(part[:RUN])):
        planted = clean[: len(clean) // 2] + form + clean[len(clean) // 2 :]
        assert traces({str(number): planted}, part), form


def test_page_hashes_are_there_and_tokens_cannot_be_read_from_them(recorded: tuple[Path, list[int]]) -> None:
    """What is kept of a prompt are digests: of a fixed length each, and as many as it has pages."""
    run, _ = recorded
    text = b"".join(path.read_bytes() for path in run.glob("spans-*"))
    assert b"hicache.request.page_keys" in text
    assert b"hicache.request.fingerprint" in text


def test_files_of_a_recording_are_no_executables_and_no_links(recorded: tuple[Path, list[int]]) -> None:
    """A recording is plain files that others cannot write."""
    run, _ = recorded
    assert all(path.is_file() and not path.is_symlink() for path in run.iterdir())
    assert all(path.stat().st_mode & 0o133 == 0 for path in run.iterdir())
