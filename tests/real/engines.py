"""Runs plans of real engines beside a real store: `play([generate(prompt), flush(), generate(prompt)])`."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import invoke

SCRIPT = Path(__file__).parent / "engine_script.py"
Step = dict[str, Any]


@dataclass(frozen=True)
class Played:
    """What a plan gave: one mapping a step, with the step's own fields, and how the command ended."""

    steps: list[dict[str, Any]]
    code: int
    stderr: str

    def answers(self) -> list[dict[str, Any]]:
        """The steps that were requests."""
        return [step for step in self.steps if step["do"] == "generate"]


def play(
    steps: Sequence[Step],
    *,
    engine: Mapping[str, Any] | None = None,
    before: Sequence[str] = (),
    segment: int | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> Played:
    """Run STEPS with one engine under `lab exec`; BEFORE are words before it, such as `("trace", "--run", DIR, "--")`.

    ENGINE overrides the defaults of `engine_script.DEFAULTS`. Fails the test when the command does not end with 0.
    """
    with tempfile.TemporaryDirectory() as folder:
        size = [] if segment is None else ["--segment", str(segment)]
        words = ["lab", "exec", *size, "--", *command_of(Path(folder), steps, engine)]
        command = invoke.argv(*before, *invoke.argv(*words)) if before else invoke.argv(*words)
        done = subprocess.run(
            command, env=invoke.environment(env), capture_output=True, text=True, timeout=timeout, check=False
        )
    steps_done = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"do"')]
    assert done.returncode == 0, f"exit {done.returncode}, after {len(steps_done)} steps: {done.stderr[-3000:]}"
    assert all(step.get("flushed", True) for step in steps_done), "the engine refused to flush"
    return Played(steps_done, done.returncode, done.stderr)


def command_of(folder: Path, steps: Sequence[Step], engine: Mapping[str, Any] | None = None) -> list[str]:
    """The command that plays STEPS, its plan written into FOLDER."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"engine": dict(engine or {}), "steps": list(steps)}))
    return [sys.executable, str(SCRIPT), str(plan)]


def tokens(count: int, seed: int = 7) -> list[int]:
    """A prompt of COUNT token ids; other seeds share no prefix."""
    return [(seed * index + seed) % 1000 + 3 for index in range(count)]


def generate(prompt: Sequence[int], **options: Any) -> Step:
    """Send PROMPT; options are `new` (output tokens), `rid`, and `salt` (a namespace, from 0.5.23 on)."""
    return {"do": "generate", "prompt": list(prompt), **options}


def together(prompts: Mapping[str, Sequence[int]], **options: Any) -> Step:
    """Send several prompts at once, by request id."""
    return {
        "do": "together",
        "prompts": [list(prompt) for prompt in prompts.values()],
        "rids": list(prompts),
        **options,
    }


def written(objects: int) -> Step:
    """Wait until that many objects are in the store."""
    return {"do": "written", "objects": objects}


def forget(part: str, objects: int) -> Step:
    """Take the objects with PART in their key out of the store, behind the engine's back; there must be as many as told."""
    return {"do": "forget", "part": part, "objects": objects}


def flush() -> Step:
    """Empty device and host tier, not the store."""
    return {"do": "flush"}


def wait(seconds: float) -> Step:
    """Let time pass."""
    return {"do": "wait", "seconds": seconds}


def keys() -> Step:
    """List the objects in the store."""
    return {"do": "keys"}


def values(*names: str) -> Step:
    """Read environment variables of the engine's process."""
    return {"do": "environment", "names": list(names)}
