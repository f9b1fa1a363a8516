"""`--from` and `export --to clickhouse` from outside: a folder of columns, and a server's door."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from columnar import PASSWORD, USER, Door, door
from invoke import ROOT, hicachectl

pytest.importorskip("chdb")
SAMPLE = ROOT / "tests" / "samples" / "faults"
KEYS = {"CLICKHOUSE_USER": USER, "CLICKHOUSE_PASSWORD": PASSWORD}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Door, str]]:
    """A door with the sample behind it, brought there by `export`."""
    with door(tmp_path / "server") as (opened, place):
        done = hicachectl("export", str(SAMPLE), "--to", "clickhouse", "--target", f"clickhouse://{place}/otel", env=KEYS)
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"wrote 306 spans to clickhouse://{place}/otel\n"
        yield opened, place


def test_a_server_gives_the_verdicts_of_the_files(served: tuple[Door, str]) -> None:
    """Explain and show over HTTP, all and one; the user comes from the environment or the URL, and no password is printed."""
    opened, place = served
    named = f"clickhouse://{USER}:{quote(PASSWORD, safe='')}@{place}/otel"
    for url, env, request in ((f"clickhouse://{place}/otel", KEYS, []), (named, {}, ["--request", "gap-again"])):
        here = hicachectl("explain", str(SAMPLE), "-o", "json", "--fail-on", "never", *request)
        there = hicachectl("explain", "--from", url, "-o", "json", "--fail-on", "never", *request, env=env)
        assert there.returncode == 0, there.stderr
        assert PASSWORD not in there.stdout + there.stderr
        assert json.loads(there.stdout)["runs"] == [f"clickhouse://{place}/otel"]
        assert {**json.loads(there.stdout), "runs": []} == {**json.loads(here.stdout), "runs": []}
        assert hicachectl("show", "--from", url, *request, env=env).stdout == hicachectl("show", str(SAMPLE), *request).stdout
    assert hicachectl("fleet", "--from", f"clickhouse://{place}/otel", env=KEYS).stdout == hicachectl("fleet", str(SAMPLE)).stdout
    assert all(sql.lstrip().upper().startswith(("SELECT", "WITH", "CREATE TABLE IF NOT EXISTS", "INSERT INTO")) for sql in opened.sql)


def test_a_folder_of_columns_is_kept_and_added_to(tmp_path: Path) -> None:
    """What was exported stays; a second recording is read together with it; the folder is no recording and no other folder is touched."""
    target = f"chdb:{tmp_path / 'columns'}"
    for version in ("0.5.14", "0.5.23"):
        done = hicachectl("export", str(ROOT / "tests" / "samples" / "versions" / version), "--to", "clickhouse", "--target", target)
        assert done.returncode == 0, done.stderr
    both = [str(ROOT / "tests" / "samples" / "versions" / version) for version in ("0.5.14", "0.5.23")]
    here = json.loads(hicachectl("explain", *both, "-o", "json", "--fail-on", "never").stdout)
    there = json.loads(hicachectl("explain", "--from", target, "-o", "json", "--fail-on", "never").stdout)
    assert {**there, "runs": []} == {**here, "runs": []}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    done = hicachectl("export", str(SAMPLE), "--to", "clickhouse", "--target", f"chdb:{tmp_path / 'mine'}")
    assert (done.returncode, [path.name for path in (tmp_path / "mine").iterdir()]) == (2, ["file"])


def test_a_server_that_does_not_answer_as_hoped_is_one_sentence_and_exit_3(served: tuple[Door, str]) -> None:
    """No such user, no such table, another answer, one that breaks off: what the server says, in one line."""
    opened, place = served
    source = f"clickhouse://{place}/otel"
    tries = (
        (source, {}, None, "refuses the user"),
        (f"{source}?table=spans", KEYS, None, "has no such table"),
        (source, KEYS, (500, "Code: 241. DB::Exception: Memory limit"), "answers HTTP 500: Code: 241"),
        (source, KEYS, (200, "Code: 241. DB::Exception: too late\n"), "gave up: Code: 241"),
    )
    for url, env, refuses, said in tries:
        opened.refuses = refuses
        done = hicachectl("explain", "--from", url, env=env)
        assert (done.returncode, done.stdout) == (3, "")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_wrong_sources_get_the_contracts_exit_code(tmp_path: Path) -> None:
    """Usage 2, not there or not reachable 3."""
    (tmp_path / "empty").mkdir()
    for code, words in (
        (2, ["explain", "--from", "http://localhost:8123/otel"]),
        (2, ["explain", "--from", "clickhouse:///otel"]),
        (2, ["explain", "--from", "chdb:"]),
        (2, ["export", str(SAMPLE), "--to", "clickhouse", "--target", "chdb:"]),
        (2, ["explain", "--from", "clickhouse://localhost/o'tel"]),
        (2, ["explain", "--from", "clickhouse://localhost/otel?cluster=a"]),
        (2, ["explain", str(SAMPLE), "--from", f"chdb:{SAMPLE}"]),
        (2, ["fleet", str(SAMPLE), "--from", f"chdb:{SAMPLE}"]),
        (2, ["explain", "--from", f"chdb:{SAMPLE}", "--request", "nobody"]),
        (2, ["export", str(SAMPLE), "--to", "clickhouse"]),
        (2, ["export", str(SAMPLE), "--to", "clickhouse", "--target", "file"]),
        (3, ["explain", "--from", "clickhouse://127.0.0.1:1/otel"]),
        (3, ["fleet", "--from", f"chdb:{tmp_path / 'none'}"]),
        (3, ["show", "--from", f"chdb:{tmp_path / 'empty'}"]),
    ):
        done = hicachectl(*words)
        assert done.returncode == code, (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_what_names_no_column_store_is_told_both_kinds(tmp_path: Path) -> None:
    """Where a recording is named after --from, and where a target has no host: the sentence names chDB too, and no option that was not used."""
    for words in (["explain", "--from", str(SAMPLE)], ["export", str(SAMPLE), "--to", "clickhouse", "--target", "clickhouse://"]):
        done = hicachectl(*words)
        assert done.returncode == 2
        assert "chdb:FOLDER" in done.stderr
        assert done.stderr.count("--from") == 0


def test_without_chdb_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """Exit 3 where the extra is absent."""
    (tmp_path / "chdb").mkdir()
    (tmp_path / "chdb" / "__init__.py").write_text("raise ImportError(name='chdb')")
    done = hicachectl("fleet", str(SAMPLE), env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "hicachectl: chdb: needs a package that is not here (chdb): `pip install 'hicachectl[chdb]'`\n"
