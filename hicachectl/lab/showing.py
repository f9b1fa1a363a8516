"""Runs the demo's scenarios under the tracers, as a user would, and holds the verdicts against the table."""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hicachectl.diagnosis.run import Diagnosis, Verdict
from hicachectl.exits import UnreachableError
from hicachectl.lab.scenarios import SCENARIOS, Scenario
from hicachectl.release import Release

NEEDED = {
    "sglang": "sglang",
    "mooncake": "mooncake-transfer-engine (with a CUDA GPU) or mooncake-transfer-engine-non-cuda",
}
TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """One scenario and what the recording says of it; no verdict where the request is not in the recording."""

    scenario: Scenario
    verdict: Verdict | None
    differs: tuple[str, ...]

    @property
    def as_expected(self) -> bool:
        """Whether every rung and number is as the table says."""
        return self.verdict is not None and not self.differs


def record(folder: Path, say: Callable[[str], None]) -> None:
    """Record the scenarios into FOLDER, telling each step; UnreachableError where something that is needed is absent or the engine fails."""
    for module, package in NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise UnreachableError(
                f"the demo runs the real engine, and {sys.executable} has no {module}: install {package}, or run `make demo` in a checkout"
            )
    with tempfile.TemporaryFile("w+") as log:
        code = _run(folder, say, log)
        if code:
            log.seek(0)
            tail = "".join(f"  {line}" for line in log.readlines()[-TAIL_LINES:])
            say(tail)
            raise UnreachableError(
                f"the demo's engine ended with {code} before it was through: its last lines are above, its recording is in {folder}"
            )


def _run(folder: Path, say: Callable[[str], None], log: IO[str]) -> int:
    ours = [sys.executable, "-m", "hicachectl"]
    command = [
        *ours,
        "trace",
        "--run",
        str(folder),
        "--",
        *ours,
        "lab",
        "exec",
        "--",
        sys.executable,
        "-m",
        "hicachectl.lab.scenarios",
    ]
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        for line in child.stdout or ():
            say(f"[{time.monotonic() - begun:4.0f} s] {line}")
        return child.wait()
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()


def judged(found: Diagnosis) -> list[Shown]:
    """Every scenario of the table with its verdict."""
    by_rid = {each.journey.attempt.rid: each for each in found.requests}
    return [Shown(each, by_rid.get(each.rid), tuple(_differences(each, by_rid.get(each.rid)))) for each in SCENARIOS]


def _claims(scenario: Scenario, verdict: Verdict) -> Mapping[str, int]:
    """What the engine claims in this release; nothing where that is not known."""
    if scenario.claims_now is None:
        return scenario.claims
    release = Release.of(verdict.journey.attempt.engine.sglang or "0")
    if release < Release.of("0.5.15"):
        return scenario.claims
    return scenario.claims_now if release >= Release.of("0.5.23") else {}


def _differences(scenario: Scenario, verdict: Verdict | None) -> list[str]:
    if verdict is None:
        return [f"request {scenario.rid} is not in the recording"]
    account = verdict.account
    reused = {"device": account.device, "host": account.host, "storage": account.storage}
    lost = {each.code: each.tokens for each in verdict.lost}
    seen = [(rung, wanted, verdict.ladder[rung].state) for rung, wanted in scenario.ladder.items()]
    seen += [(f"reused.{tier}", str(wanted), str(reused[tier])) for tier, wanted in scenario.reused.items()]
    seen += [
        (f"engine_claims.{tier}", str(wanted), str(account.claims[tier])) for tier, wanted in _claims(scenario, verdict).items()
    ]
    seen += [(f"lost {code}", str(wanted), str(lost.get(code, 0))) for code, wanted in scenario.lost.items()]
    found = [f"{name} is {have}, expected {wanted}" for name, wanted, have in seen if wanted != have]
    others = {engine for engine, _, _ in account.writers} - {verdict.journey.attempt.engine.id}
    if scenario.written_by_another and not others:
        found.append("no other engine is named as the writer")
    return found
