"""Parquet: a row a span, typed by the vocabulary."""

from pathlib import Path
from typing import Any

import pytest
from invoke import ROOT, hicachectl
from recordings import Recording

from hicachectl import store
from hicachectl.export import parquet
from tracers import vocabulary as v

SAMPLE = ROOT / "tests" / "samples" / "versions" / "0.5.14"

pq = pytest.importorskip("pyarrow.parquet")


def table(folder: Path, file: Path) -> Any:
    """The table that a recording becomes."""
    done = hicachectl("export", str(folder), "--to", "parquet", "--target", str(file))
    assert done.returncode == 0, done.stderr
    return pq.read_table(file)


def test_every_span_of_the_real_engine_is_a_row_with_its_own_values(tmp_path: Path) -> None:
    """Ids, times, resource and each attribute come back as they were, ledgers are rows as well, and no value was left over."""
    found = store.read([SAMPLE])
    rows = {row["span_id"]: row for row in table(SAMPLE, tmp_path / "spans.parquet").to_pylist()}
    assert len(rows) == len(found.spans) + len(found.ledgers)
    for span in found.spans:
        row = rows[span.span_id]
        told = (row["trace_id"], row["parent_id"] or "", row["name"], row["engine"], row["duration_ns"], row["error"])
        assert told == (span.trace_id, span.parent_id, span.name, span.engine, span.duration_ns, span.error)
        assert row["start"].value == span.start_ns
        assert {key: row[key] for key in span.attributes} == span.attributes
        assert {key: row[key] for key in found.resources[span.engine] if key != v.R_ENGINE} | {
            v.R_ENGINE: span.engine
        } == found.resources[span.engine]
        assert row["other"] is None


def test_the_schema_is_the_vocabularys_whatever_was_recorded(tmp_path: Path) -> None:
    """An empty recording has every column too; what has no column, or is of another kind, is text in `other`."""
    made = Recording()
    first, second = made.engine(pid=1), made.engine(pid=2)
    put = first.span(v.STORE_PUT, 1, 2, attributes={v.CODE: "minus one", "mine": [1, 2]})
    second.span(
        v.PREFILL, 3, 4, rid="a", links=[put], attributes={v.FIRST_CHUNK: True, v.SECONDS: 0.5, v.BAD_OBJECTS: [3]}
    )
    empty = Recording()
    empty.engine()
    found, none = (
        table(made.write(tmp_path / "run"), tmp_path / "a.parquet"),
        table(empty.write(tmp_path / "empty"), tmp_path / "b.parquet"),
    )
    assert found.schema == none.schema
    assert found.column_names == list(parquet.columns())
    rows = {row["name"]: row for row in found.to_pylist()}
    assert rows[v.STORE_PUT]["other"] == [(v.CODE, "minus one"), ("mine", "[1,2]")]
    assert rows[v.STORE_PUT][v.CODE] is None
    assert rows[v.PREFILL]["links"] == [f"{put.trace_id}:{put.span_id}"]
    assert (rows[v.PREFILL][v.FIRST_CHUNK], rows[v.PREFILL][v.SECONDS], rows[v.PREFILL][v.BAD_OBJECTS]) == (
        True,
        0.5,
        [3],
    )


def test_numbers_that_no_column_holds_are_text_and_times_null(tmp_path: Path) -> None:
    """A damaged recording may have numbers of more than 64 bits: the row is written, and says them in `other`."""
    made = Recording()
    made.engine(resource={v.R_PID: 10**40}).span(v.STORE_PUT, 10**40, 10**40 + 1, attributes={v.OBJECTS: 10**30, v.BAD_OBJECTS: [10**30]})
    (row,) = [row for row in table(made.write(tmp_path / "run"), tmp_path / "a.parquet").to_pylist() if row["name"] == v.STORE_PUT]
    assert (row["start"], row["end"], row[v.OBJECTS], row[v.BAD_OBJECTS], row[v.R_PID]) == (None, None, None, None, None)
    assert dict(row["other"]) == {v.OBJECTS: str(10**30), v.BAD_OBJECTS: f"[{10**30}]"}


def test_no_more_than_a_batch_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go out by batches, each a row group, so that a long recording needs no more memory than a short one."""
    monkeypatch.setattr(parquet, "BATCH", 3)
    made = Recording()
    engine = made.engine()
    for at in range(7):
        engine.span(v.PREFILL, at, at + 1)
    with (tmp_path / "out.parquet").open("wb") as out:
        assert parquet.write([made.write(tmp_path / "run")], out) == 7
    file = pq.ParquetFile(tmp_path / "out.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [3, 3, 2]


def test_without_the_package_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3, and no file is begun."""
    (tmp_path / "site" / "pyarrow").mkdir(parents=True)
    (tmp_path / "site" / "pyarrow" / "__init__.py").write_text("raise ImportError(name='pyarrow')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    (tmp_path / "out").mkdir()
    done = hicachectl("export", str(SAMPLE), "--to", "parquet", "--target", str(tmp_path / "out" / "x.parquet"))
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        done.stderr
        == "hicachectl: parquet needs a package that is not here (pyarrow): `pip install 'hicachectl[parquet]'`\n"
    )
    assert list((tmp_path / "out").iterdir()) == []
