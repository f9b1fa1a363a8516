"""Writes docs/grafana.json, a dashboard of our metrics, from a table of panels; `--check` says whether it is up to date."""  # noqa: INP001

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generated import put

from hicachectl.recorder.scrape import label, prometheus_name
from tracers import vocabulary as v

PAGE = Path(__file__).resolve().parent.parent / "docs" / "grafana.json"
COLUMNS, WIDTH, HEIGHT = 3, 8, 8
HERE = f'{label(v.R_HOST)}=~"$host"'
ONE_RANK = f'{HERE},{label(v.R_TP_RANK)}="0",{label(v.R_PP_RANK)}="0"'
"""Of what is the same on every rank, one rank tells all; of what adds up, all do."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what it is about, its unit (Grafana's names), and its queries by legend."""

    title: str
    unit: str
    about: str
    queries: tuple[tuple[str, str], ...]


def selected(metric: str, more: str = "", suffix: str = "") -> str:
    """The series of METRIC that a panel adds up: those of one rank where all ranks tell the same."""
    of = {v.SAME: ONE_RANK, v.ADDS: HERE, v.WHOLE: HERE if metric == v.M_LOST else ""}[v.METRICS[metric][3]]
    return f"{prometheus_name(metric)}{suffix}{{{','.join(filter(None, (of, more)))}}}"


def rate(metric: str, by: str = "", more: str = "") -> str:
    """Change of a counter in a second, by an attribute."""
    grouped = f" by ({label(by)})" if by else ""
    return f"sum{grouped} (rate({selected(metric, more)}[$__rate_interval]))"


def total(metric: str, by: str, more: str = "") -> str:
    """What a counter has come to so far, by an attribute: of what first appears with its first event no rate would show that."""
    return f"sum by ({label(by)}) ({selected(metric, more)})"


def quantile(share: float, metric: str, by: str = "") -> str:
    """Quantile of a histogram."""
    grouped = ", ".join(["le", *([label(by)] if by else [])])
    return f"histogram_quantile({share}, sum by ({grouped}) (rate({selected(metric, suffix='_bucket')}[$__rate_interval])))"


def both(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    """Median and 99th percentile of a histogram."""
    name = f" {{{{{label(by)}}}}}" if by else ""
    return tuple((f"p{round(share * 100)}{name}", quantile(share, metric, by)) for share in (0.5, 0.99))


TIER, RESULT = label(v.D_TIER), label(v.D_RESULT)
PANELS = (
    Panel("Requests", "reqps", "First prefills in a second.", (("requests", rate(v.M_REQUESTS)),)),
    Panel("Prompt tokens by tier", "short", "Where the tokens of prompts came from, in a second.", ((f"{{{{{TIER}}}}}", rate(v.M_TOKENS, v.D_TIER)),)),
    Panel(
        "Share of prompt tokens reused",
        "percentunit",
        "Of all prompt tokens.",
        (
            ("reused", rate(v.M_TOKENS, more=f'{TIER}!="computed"') + " / " + rate(v.M_TOKENS)),
            ("from storage", rate(v.M_TOKENS, more=f'{TIER}="storage"') + " / " + rate(v.M_TOKENS)),
        ),
    ),
    Panel(
        "Tokens lost so far, by code",
        "short",
        "Tokens that the store had and that were computed all the same; `hicachectl code CODE` says more. From `trace --metrics-port` alone.",
        ((f"{{{{{label(v.D_CODE)}}}}}", total(v.M_LOST, v.D_CODE)),),
    ),
    Panel("Findings", "short", "Findings so far, by level.", ((f"{{{{{label(v.D_LEVEL)}}}}}", total(v.M_FINDINGS, v.D_LEVEL)),)),
    Panel("Judged", "bool", "1 while losses and findings are worked out beside the engine.", (("judged", f"min({selected(v.M_JUDGED)})"),)),
    Panel("Pages written and read", "short", "Pages of storage operations, in a second.", ((f"{{{{{label(v.D_DIRECTION)}}}}}", rate(v.M_PAGES, v.D_DIRECTION)),)),
    Panel("Bytes written and read", "Bps", "Bytes that the store client moved, all ranks together.", ((f"{{{{{label(v.D_DIRECTION)}}}}}", rate(v.M_BYTES, v.D_DIRECTION)),)),
    Panel(
        "Objects that did not succeed so far",
        "short",
        "By what became of them: a negative code, short, or raised; `hicachectl code NUMBER` says more.",
        ((f"{{{{{RESULT}}}}}", total(v.M_OBJECTS, v.D_RESULT, f'{RESULT}!~"ok|absent"')),),
    ),
    Panel("Calls of the store client", "s", "How long they take.", both(v.M_CALLS, v.D_OPERATION)),
    Panel("Lookups", "s", "How long the store takes to say what it has.", both(v.M_LOOKUP)),
    Panel("Transfers", "s", "From the store into the host pool.", both(v.M_TRANSFER)),
    Panel("Load-backs", "s", "From the host pool to the device, until acknowledged.", both(v.M_LOAD_BACK)),
    Panel("Writes", "s", "Writes of an operation's pages to the store.", both(v.M_WRITE)),
    Panel(
        "Prefetch occupancy",
        "short",
        "Tokens that running prefetches occupied when the latest was asked for, and the limit.",
        (("occupied", f"max({selected(v.M_OCCUPIED)})"), ("limit", f"min({selected(v.M_LIMIT)})")),
    ),
    Panel("Skips so far, by reason", "short", "Steps skipped or cut short.", ((f"{{{{{label(v.D_REASON)}}}}}", total(v.M_SKIPS, v.D_REASON)),)),
    Panel(
        "Evictions",
        "short",
        "Tokens freed by tier, and those dropped without a host copy, in a second.",
        ((f"{{{{{TIER}}}}}", rate(v.M_EVICTED, v.D_TIER)), ("without a copy", rate(v.M_UNBACKED))),
    ),
    Panel(
        "Of the tracers themselves",
        "short",
        "Spans that nobody has or that a collector did not get, and faults, so far: all should be 0.",
        ((f"{{{{{label(v.D_FATE)}}}}}", total(v.M_SPANS, v.D_FATE, f'{label(v.D_FATE)}!="written"')), ("faults", f"sum({selected(v.M_FAULTS)})")),
    ),
)


def panel(number: int, row: Panel) -> dict[str, Any]:
    """A panel in Grafana's own form."""
    targets = [{"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend} for at, (legend, query) in enumerate(row.queries)]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": row.title,
        "description": row.about,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": row.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def page() -> str:
    """The dashboard as it should be."""
    requests = prometheus_name(v.M_REQUESTS)
    hosts = {
        "name": "host",
        "label": "Host",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({requests}, {label(v.R_HOST)})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    dashboard = {
        "uid": "hicachectl",
        "title": "hicachectl: HiCache and Mooncake Store",
        "tags": ["sglang", "hicache", "mooncake"],
        "schemaVersion": 36,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}, hosts]},
        "panels": [panel(number, row) for number, row in enumerate(PANELS)],
    }
    return json.dumps(dashboard, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(put(PAGE, page()))
