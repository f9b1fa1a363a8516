"""Pages that are generated say what the code says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_table_of_spans_is_that_of_the_vocabulary() -> None:
    """docs/spans.md is what its generator writes today."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_spans.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python scripts/generate_spans.py"


def test_the_table_of_metrics_is_that_of_the_vocabulary() -> None:
    """docs/metrics.md has the tables that its generator writes today."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_metrics.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python scripts/generate_metrics.py"


def test_the_table_of_versions_knows_every_hook_point() -> None:
    """docs/versions.md is made from recordings; each row of today is in it."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_versions.py"), "--check"], check=False)
    assert done.returncode == 0, "run scripts/generate_versions.py on recordings of every pair"
