"""A real collector that writes into the column store by itself: what it wrote is explained as the recording is."""

import json
import time
from pathlib import Path

import collecting
import columnar
import pytest
from invoke import ROOT, hicachectl

pytestmark = pytest.mark.real
pytest.importorskip("chdb")
CLICKHOUSE = {"CLICKHOUSE_USER": columnar.USER, "CLICKHOUSE_PASSWORD": columnar.PASSWORD, "NO_PROXY": "*"}


@pytest.mark.parametrize("sample", ["versions/0.5.14", "faults"])
def test_what_a_collector_writes_into_columns_is_explained_as_the_recording(sample: str, tmp_path: Path) -> None:
    """Engine to collector by OTLP, collector to the table by its own exporter for ClickHouse: `explain` gives the same, and so does `fleet`."""
    run = str(ROOT / "tests" / "samples" / sample)
    with columnar.door(tmp_path / "columns") as (there, where):
        columnar.table(there)
        options = ["--exporter", "clickhouse", "--clickhouse-exporter-endpoint", f"http://{where}", "--clickhouse-exporter-compression", "none", "--clickhouse-exporter-async-insert", "false"]
        user = ["--clickhouse-exporter-user", columnar.USER, "--clickhouse-exporter-password", columnar.PASSWORD]
        with collecting.collector(tmp_path, [*options, *user]) as collector:
            sent = hicachectl("export", run, "--to", "otlp", "--target", collector.http)
            assert sent.returncode == 0, sent.stderr
            wait(there, int(sent.stderr.split()[1]))
        source = ("--from", f"clickhouse://{where}/otel", "-o", "json")
        back, told = (json.loads(hicachectl("explain", *words, "--fail-on", "never", env=CLICKHOUSE).stdout) for words in (source, (run, "-o", "json")))
        assert {**back, "runs": []} == {**told, "runs": []}
        back, told = (json.loads(hicachectl("fleet", *words, env=CLICKHOUSE).stdout) for words in (source, (run, "-o", "json")))
        assert back["total"] == told["total"]


def wait(there: columnar.Door, spans: int) -> None:
    """Until the table has as many SPANS."""
    until = time.monotonic() + 30
    while int(there.session.query("SELECT count() FROM otel.otel_traces", "TabSeparated").bytes()) < spans:
        assert time.monotonic() < until, "the collector has not written all of them"
        time.sleep(0.2)
