"""The catalogue: every code has one row and one page, and both say what was promised."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hicachectl.diagnosis import codes
from hicachectl.diagnosis.codes import asked

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "hicachectl" / "diagnosis" / "pages"

# How many ids each letter has, and the codes of our own.
NUMBERED = {"A": 21, "K": 13, "W": 18, "R": 28, "L": 10, "G": 9, "E": 8, "P": 13, "X": 13}
OWN = {"HC-A101", "HC-R101", "HC-R102", "HC-E101"}
EVERY = {f"HC-{letter}{number:02d}" for letter, last in NUMBERED.items() for number in range(1, last + 1)} | OWN

# The level of every code that is not a warning, as promised to users.
ERRORS = {
    "A19",
    "A01",
    "A03",
    "A06",
    "A07",
    "A11",
    "A13",
    "A14",
    "W13",
    "W17",
    "R10",
    "R15",
    "R16",
    "R101",
    "R102",
    "K10",
    "K11",
    "K12",
    "R21",
    "R27",
}
ONLY_WHEN_NOT_SERVING = {"A01", "A03", "A06", "A07", "A11", "A13", "A14"}
INFOS = {
    "A09",
    "W01",
    "W02",
    "W11",
    "W12",
    "R01",
    "R03",
    "R04",
    "R19",
    "R23",
    "R25",
    "L01",
    "L02",
    "G01",
    "G03",
    "G04",
    "G05",
    "G06",
    "G07",
    "G08",
    "G09",
    "E05",
    "E06",
}

HEADINGS = ["What it means", "What you see", "Why it happens", "What to do", "How to check that it is gone"]
COMMANDS = {"explain", "show", "points", "probe", "probe-keys", "doctor", "code", "trace"}

by_code = pytest.mark.parametrize("row", codes.ALL.values(), ids=codes.ALL)


def page_of(row: codes.Code) -> str:
    """The page's file as it is."""
    return (PAGES / f"{row.id}.md").read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under HEADING."""
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].strip()


def test_every_promised_id_has_exactly_one_row() -> None:
    """No id is missing, none is there that nobody promised, and none is there twice."""
    assert set(codes.ALL) == EVERY
    assert len(codes._RANKED) == len(codes.ALL)


def test_every_row_has_exactly_one_page() -> None:
    """The folder of pages holds a page for each id and nothing else."""
    assert sorted(path.name for path in PAGES.iterdir()) == sorted(f"{code}.md" for code in EVERY)


@by_code
def test_levels_are_those_of_the_table(row: codes.Code) -> None:
    """A code has the level that was promised, and a second one only where it depends on the backend."""
    short = row.id.removeprefix("HC-")
    assert row.level == ("error" if short in ERRORS else "info" if short in INFOS else "warning")
    assert row.level_if_serving == ("warning" if short in ONLY_WHEN_NOT_SERVING else None)


@by_code
def test_rows_are_complete(row: codes.Code) -> None:
    """A row says something without arguments, wants known evidence, names a next step, and stays on one line each."""
    assert row.needs
    assert set(row.needs) <= set(codes.EVIDENCE)
    for text in (row.plain, row.title, row.next):
        assert text
        assert "\n" not in text
        assert not text.endswith(".")
    assert "{" not in row.plain


@by_code
def test_titles_are_filled_from_arguments_or_stay_plain(row: codes.Code) -> None:
    """With all its arguments a title shows each of them; with one missing the plain title is said."""
    full = {name: f"<{place}>" for place, name in enumerate(row.fields)}
    assert all(value in row.titled(full) for value in full.values())
    for name in row.fields:
        assert row.titled({**full, name: None}) == row.plain
        assert row.titled({key: value for key, value in full.items() if key != name}) == row.plain


@by_code
def test_pages_have_every_heading_and_words_under_each(row: codes.Code) -> None:
    """A page begins with its code and title, and has the five headings in order with text under each."""
    text = page_of(row)
    assert text.startswith(f"# {row.id}: {row.plain}\n")
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == HEADINGS
    assert all(section(text, heading) for heading in HEADINGS)


@by_code
def test_pages_are_short_enough_for_the_night(row: codes.Code) -> None:
    """A page fits a screen or two: 15 to 40 lines."""
    assert 15 <= len(page_of(row).splitlines()) <= 40


@by_code
def test_pages_hold_no_machine_path(row: codes.Code) -> None:
    """Nothing of the machine that a page was written on is in it."""
    assert not re.search(r"/(root|work|home|tmp|usr|opt)/", page_of(row))


@by_code
def test_pages_and_rows_name_codes_and_commands_that_exist(row: codes.Code) -> None:
    """A page sends its reader only to codes of the catalogue and to commands of ours."""
    text = f"{page_of(row)}\n{row.next}"
    assert set(re.findall(r"HC-[A-Z]\d+", text)) <= set(codes.ALL)
    assert set(re.findall(r"hicachectl ([a-z-]+)", text)) <= COMMANDS


@pytest.mark.parametrize("spelling", ["R12", "r12", "HC-R12", "hc-r12", " HC-R12 ", "hcr12"])
def test_a_code_is_found_in_any_spelling(spelling: str) -> None:
    """Case, prefix and blanks do not matter."""
    assert codes.get(spelling).id == "HC-R12"
    assert codes.page(spelling).startswith("# HC-R12: ")


def test_a_single_digit_gets_its_zero() -> None:
    """`R4` is R04, and 101 keeps its three digits."""
    assert codes.get("R4").id == "HC-R04"
    assert codes.get("e101").id == "HC-E101"


@pytest.mark.parametrize("unknown", ["R99", "Q01", "", "R", "12", "R12x", "HC-"])
def test_an_unknown_code_is_a_key_error(unknown: str) -> None:
    """Nothing is guessed for a code that no row has."""
    with pytest.raises(KeyError):
        codes.get(unknown)


def test_causes_rank_by_letter_whatever_the_level() -> None:
    """Every A before every K, then W, E, R, L, G, and P and X last."""
    ranked = sorted(codes.ALL, key=codes.rank)
    letters = [codes.ALL[code].letter for code in ranked]
    assert "".join(dict.fromkeys(letters)) == "AKWERLGPX"
    assert letters == sorted(letters, key="AKWERLGPX".index)


@pytest.mark.parametrize(
    ("cause", "effect"),
    [
        ("R13", "R12"),
        ("R101", "R12"),
        ("A19", "R05"),
        ("K01", "R12"),
        ("L02", "G02"),
        ("E06", "R13"),
        ("W17", "W06"),
        ("R16", "R18"),
        ("R102", "R15"),
    ],
)
def test_a_cause_ranks_before_what_follows_from_it(cause: str, effect: str) -> None:
    """The finding to act on comes first: a gap before the short hit, a dead thread before its time-outs."""
    assert codes.rank(cause) < codes.rank(effect)


def test_the_list_is_by_letter_and_number() -> None:
    """A reader finds R12 between R11 and R13, and own codes at the end of their letter."""
    ids = [row.id for row in codes.listed()]
    assert len(ids) == len(EVERY)
    assert ids[:22] == [*(f"HC-A{number:02d}" for number in range(1, 22)), "HC-A101"]
    assert ids.index("HC-R12") + 1 == ids.index("HC-R13")


@by_code
def test_a_row_that_only_another_version_shows_says_so(row: codes.Code) -> None:
    """Not yet detected and of one version: the words for readers name the version."""
    if row.detected == "no":
        assert row.proof.startswith("not yet detected")
        assert ("only SGLang" in row.proof) == (row.versions != "0.5.14 and 0.5.23")
    else:
        assert row.proof in ("provoked for real", "on a recording")


def test_the_page_shows_level_versions_and_proof_of_the_row() -> None:
    """What changes with the row is not written in the page's file but put under its title."""
    row = codes.get("A01")
    line = codes.page("A01").splitlines()[2]
    assert line == f"*error (warning while the backend serves) - SGLang {row.versions} - {row.proof}*"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("-704", ["OBJECT_NOT_FOUND"]),
        ("704", ["OBJECT_NOT_FOUND"]),
        ("object-not-found", ["OBJECT_NOT_FOUND"]),
        ("ObjectNotFound", ["OBJECT_NOT_FOUND"]),
        ("-3", ["ERR_ADDRESS_NOT_REGISTERED"]),
    ],
)
def test_a_number_or_name_of_mooncakes_is_found(text: str, names: list[str]) -> None:
    """With or without its sign, in any spelling of the name."""
    assert [row.name for row in asked.find(text).errors] == names


def test_a_number_that_layers_share_has_each_meaning() -> None:
    """-101 is a segment in the store and a name that does not resolve in the engine; neither is left out."""
    layers = {row.layer.value for row in asked.find("-101").errors}
    assert {"Store", "Transfer Engine"} <= layers


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("R99", "HC-R09"),
        ("OBJECT_NOT_FOUNT", "OBJECT_NOT_FOUND"),
        ("-706x", None),
        ("-9999", "-1702"),
        ("-703999", "-1702"),
    ],
)
def test_the_nearest_matches_are_offered(text: str, near: str | None) -> None:
    """A misspelt id, name or number is answered with what it may have been; nonsense with nothing."""
    offered = asked.nearest(text)
    assert (near in offered) if near else offered == ()


def test_the_generated_list_is_up_to_date() -> None:
    """docs/findings.md is what the generator writes."""
    done = subprocess.run(
        [sys.executable, "scripts/generate_findings.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
