"""Pages that are generated say what the code says."""

import json
import re
import subprocess
import sys
from pathlib import Path

from hicachectl.recorder.metrics import OF_ENGINE
from hicachectl.recorder.scrape import label, prometheus_name
from tracers import vocabulary as v

ROOT = Path(__file__).resolve().parents[1]


def test_the_table_of_spans_is_that_of_the_vocabulary() -> None:
    """docs/spans.md is what its generator writes today."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_spans.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python scripts/generate_spans.py"


def test_the_table_of_metrics_is_that_of_the_vocabulary() -> None:
    """docs/metrics.md has the tables that its generator writes today."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_metrics.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python scripts/generate_metrics.py"


def test_the_dashboard_is_that_of_its_panels() -> None:
    """docs/grafana.json is what its generator writes today."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_dashboard.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python scripts/generate_dashboard.py"


def test_every_query_of_the_dashboard_names_metrics_and_labels_that_exist() -> None:
    """Each name in a query is a metric that is served, with a label that it has, or a word of Prometheus; no metric is left out of the dashboard."""
    names = {prometheus_name(metric) + suffix: metric for metric in v.METRICS for suffix in ("", "_bucket")}
    panels = json.loads((ROOT / "docs" / "grafana.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    asked = set()
    for query in queries:
        for name, labels in re.findall(r"(\w+)\{([^}]*)\}", query):
            asked.add(names[name])
            has = {label(key) for key in (*OF_ENGINE, *v.METRICS[names[name]][4])}
            assert set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", labels)) <= has
        rest = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", query)
        words = set(re.findall(r"[a-z_]\w*", rest)) - {*names, *(label(key) for key in v.DIMENSIONS), "le"}
        assert words <= {"sum", "by", "rate", "histogram_quantile", "max", "min"}
    assert asked == v.METRICS.keys()


def test_the_table_of_versions_knows_every_hook_point() -> None:
    """docs/versions.md is made from recordings; each row of today is in it."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_versions.py"), "--check"], check=False)
    assert done.returncode == 0, "run scripts/generate_versions.py on recordings of every pair"
