"""The probe without the client library: what the master says about itself over HTTP. Takes no lease, counts as no hit, asks for no key."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from hicachectl.mooncake import errors, master
from hicachectl.mooncake.probe.effects import GAUGES
from hicachectl.mooncake.probe.report import Report, StepResult

T = TypeVar("T")
STANDBY = -1011
"""What a master that does not serve answers to everything but its health (`UNAVAILABLE_IN_CURRENT_MODE`)."""


def look(url: str, timeout: float) -> Report:
    """Health, gauges, counters, segments; UnreachableError or BadInputError where URL is no master's admin port."""
    health, waited = _timed(lambda: master.health(url, timeout))
    report = Report(
        store={"admin": url, "service_ready": health.service_ready, "role": health.role, "state": health.state}
    )
    report.store["master_dialect"] = health.dialect.releases
    report.connected = True
    report.steps.append(_health_step(health, waited))
    if health.service_ready is False:
        return report
    metrics, waited = _timed(lambda: master.metrics(url, timeout))
    report.steps.append(_step("metrics", waited))
    segments, waited = _timed(lambda: master.segments(url, timeout))
    report.steps.append(_step("segments", waited, n=len(segments)))
    report.store |= _facts(metrics, segments)
    report.side_effects.append("none: no key was asked for, so no lease was taken and no hit counted")
    return report


def _facts(metrics: dict[str, int | float], segments: list[str]) -> dict[str, Any]:
    sampled = master.sampled(metrics) | {"segments": len(segments)}
    asked = {name: counts for name, counts in master.operations(metrics).items() if counts[0]}
    return {
        "segments": segments,
        "gauges": {name: sampled[name] for name in GAUGES},
        "counters": {name: value for name, value in sampled.items() if name not in GAUGES},
        "operations": [
            {"operation": name, "requests": requests, "succeeded": requests - failed, "failed": failed}
            for name, (requests, failed) in sorted(asked.items())
        ],
    }


def _health_step(health: master.Health, seconds: float) -> StepResult:
    if health.service_ready is not False:
        return _step("health", seconds)
    row = errors.store(STANDBY)
    name, meaning = (row.name, row.meaning) if row is not None else ("", "")
    return _step(
        "health",
        seconds,
        STANDBY,
        name,
        f"{meaning} This master is '{health.role}', its state '{health.state}'.",
        "Ask the leader: /leader on this port names it.",
    )


def _step(
    name: str, seconds: float, code: int = 0, code_name: str = "OK", meaning: str = "", following: str = "", n: int = 1
) -> StepResult:
    spent = round(1000 * seconds, 4)
    return StepResult(name, code == 0, code, code_name, n, 1, 0, spent, spent, None, meaning, following)


def _timed(question: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    answer = question()
    return answer, time.perf_counter() - began
