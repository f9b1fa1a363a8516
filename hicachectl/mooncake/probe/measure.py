"""The calls of one step, added up to its result."""

from dataclasses import dataclass, field
from statistics import median

from hicachectl.mooncake import errors
from hicachectl.mooncake.client import Answer
from hicachectl.mooncake.probe.report import StepResult, percentile
from hicachectl.mooncake.probe.rows import Expect

RIGHT: dict[Expect, int] = {Expect.zero: 0, Expect.yes: 1, Expect.no: 0, Expect.missing: -704, Expect.refused: -600}
"""The code that is right; for `size` it is the object's bytes."""
MOVING = frozenset(
    {
        "put",
        "get_into",
        "batch_put_from",
        "batch_get_into",
        "batch_put_from_multi_buffers",
        "batch_get_into_multi_buffers",
    }
)
"""Calls whose bytes make a bandwidth."""
WRONG_BYTES = "WRONG_BYTES"


@dataclass(slots=True)
class Measure:
    """One step under way."""

    name: str
    expect: Expect
    n: int = 0
    seconds: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    bad: dict[tuple[Expect, int], int] = field(default_factory=dict)
    """What was expected and the wrong code -> objects that gave it."""
    different: bool = False

    def add(self, answer: Answer, expect: Expect, size: int, *, moves: bool) -> bool:
        """Count one answer; whether it was right."""
        right = size if expect is Expect.size else RIGHT[expect]
        wrong = [code for code in answer.codes if code != right]
        for code in wrong:
            self.bad[expect, code] = self.bad.get((expect, code), 0) + 1
        different = expect is Expect.size and not wrong and answer.same is False
        self.different = self.different or different
        self.n += len(answer.codes)
        self.seconds += answer.seconds
        carries = moves and expect in {Expect.zero, Expect.size}
        self.moved.append(size * (len(answer.codes) - len(wrong)) if carries else 0)
        return not wrong and not different

    def result(self, meaning: str = "", next_step: str = "") -> StepResult:
        """The step's row; MEANING and NEXT_STEP where the situation says more than the table of codes."""
        code, name, plain = self._code()
        row = errors.store(code) if code < 0 else None
        ok = not self.bad and not self.different
        check = row.check if row is not None and not ok else ""
        return self._row(code, name, meaning or plain, next_step or check, ok=ok)

    def unanswered(self, code_name: str, meaning: str, next_step: str) -> StepResult:
        """The step's row where its last call has no code: no answer came, or the call was not made."""
        return self._row(None, code_name, meaning, next_step, ok=False)

    def _row(self, code: int | None, name: str, meaning: str, next_step: str, *, ok: bool) -> StepResult:
        total, calls = sum(self.moved), len(self.seconds)
        middle = median(self.seconds) if calls else 0.0
        return StepResult(
            name=self.name,
            ok=ok,
            code=code,
            code_name=name,
            n=self.n,
            calls=calls,
            bytes=total,
            p50_ms=round(1000 * middle, 4) if calls else None,
            p99_ms=round(1000 * percentile(self.seconds, 0.99), 4) if calls else None,
            # A step that mixes calls which move bytes with others has no bandwidth.
            gb_per_s=round(total / calls / middle / 1e9, 4) if middle and self.moved and all(self.moved) else None,
            meaning=meaning,
            next=next_step,
        )

    def _code(self) -> tuple[int, str, str]:
        """The first wrong code, else the right one; its name and its plain meaning."""
        if self.different:
            return 0, WRONG_BYTES, "The store returned the full length, but not the bytes that were put."
        if not self.bad:
            code = 0 if self.expect is Expect.size else RIGHT[self.expect]
            return code, *_meaning(self.expect, code)
        (expect, code), count = next(iter(self.bad.items()))
        name, meaning = _meaning(expect, code)
        return code, name, f"{meaning} ({count} of {self.n} objects)" if self.n > 1 else meaning


def _meaning(expect: Expect, code: int) -> tuple[str, str]:
    """Name and plain meaning of a code where EXPECT was expected."""
    if expect in {Expect.yes, Expect.no} and code in {0, 1}:
        return (
            ("EXISTS", "The store says that the object is there.")
            if code
            else ("MISSING", "The store says that the object is not there.")
        )
    if expect is Expect.size and code > 0:
        return "WRONG_SIZE", f"The store returned {code} bytes, which is not the object's size."
    if expect is Expect.size and code == 0:
        return "OK", "All bytes came back as they were put."
    row = errors.store(code)
    return (
        (row.name, row.meaning)
        if row is not None
        else ("UNKNOWN", "No release of Mooncake that is known here has this number.")
    )
