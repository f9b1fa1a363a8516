"""The one interpreter of the steps' rows, and the order of a whole probe."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hicachectl.checks import machine
from hicachectl.exits import UnreachableError
from hicachectl.mooncake import master
from hicachectl.mooncake.child import GONE
from hicachectl.mooncake.client import (
    LOAD_TIMEOUT_S,
    WRITES,
    About,
    Answer,
    Session,
    StoreDiedError,
    StoreRefusedError,
    StoreTimeoutError,
)
from hicachectl.mooncake.probe import effects, guard, stories
from hicachectl.mooncake.probe.admin import Admin, Watch, locate
from hicachectl.mooncake.probe.measure import MOVING, Measure
from hicachectl.mooncake.probe.plan import BENCH_QUIET_ROUNDS, SMALLEST_BUFFER, Plan
from hicachectl.mooncake.probe.reach import reach
from hicachectl.mooncake.probe.report import Bench, NotRun, Report, StepResult
from hicachectl.mooncake.probe.rows import CONNECT, STAGES, Expect, Keys, Needs, Row, Stage

Tick = Callable[[str, int, int], None]
"""Told before each call: the step, calls done, calls in all."""

REMOVE = Row("remove", "remove")
BARE = Row("bare", "bare", Expect.zero, Keys.parts, "bare")
NO_CONNECTION = "Is the master up, and is this its RPC address? (The client itself would try for 90 s.)"
SLOW_BUT_NO_STORE_CALL = frozenset({"arena_of", "load_torch"})


def probe(plan: Plan, tick: Tick = lambda _step, _done, _total: None) -> Report:
    """Run every step against the store; whatever happens, the own keys are removed or listed as left behind.

    BadInputError for an address that is none, UnreachableError where the client library is missing or its process cannot be started.
    """
    began = time.monotonic()
    watch = Watch(_admin(plan), min(master.DEFAULT_TIMEOUT_S, plan.timeout / 3))
    report = Report(store=effects.described(plan, watch))
    try:
        reach(plan.settings.master_server_address, plan.timeout)
    except UnreachableError as error:
        report.steps.append(Measure("setup", Expect.zero).unanswered("NO_CONNECTION", str(error), NO_CONNECTION))
        return report
    before = effects.first_look(watch, report)
    run = Run(plan, watch, report, tick)
    try:
        with Session.open(plan.settings, plan.timeout) as session:
            Interpreter(run, session, spent=time.monotonic() - began).everything()
    finally:
        run.clean_up()
    effects.last_look(plan, watch, report, before)
    return report


@dataclass(slots=True)
class Run:
    """What outlives a session: the report, and the own keys that may lie in the store."""

    plan: Plan
    watch: Watch
    report: Report
    tick: Tick
    written: set[str] = field(default_factory=set)

    def gone(self, keys: Sequence[str], codes: Sequence[int]) -> None:
        """Forget the keys that a removal did not find any more, or took away."""
        self.written -= {key for key, code in zip(keys, codes, strict=True) if code in GONE}

    def clean_up(self) -> None:
        """Remove what a session that ended early left, with a fresh one; what stays is listed."""
        keys = sorted(self.written)
        if keys:
            with suppress(UnreachableError), Session.open(self.plan.settings, self.plan.timeout) as session:
                session.about()
                if session.setup().codes == (0,):
                    self.gone(keys, session.remove(keys).codes)
        self.report.left_behind = sorted(self.written)


@dataclass(slots=True)
class Interpreter:
    """Runs the stages' rows through one session."""

    run: Run
    session: Session
    spent: float
    """Seconds of the time-out that went into looking for the master, which set-up may not take again."""
    over: str = ""
    """Why no further call is made, empty while all is well."""
    no_put: str = ""
    """Why no further put is made."""
    release: str = ""
    done: int = 0
    total: int = 0
    measures: dict[str, Measure] = field(default_factory=dict)
    """The steps of the present stage."""
    failed: dict[str, StepResult] = field(default_factory=dict)
    removal: Measure = field(default_factory=lambda: Measure(REMOVE.step, REMOVE.expect))
    removal_story: tuple[str, str] = ("", "")
    bare: dict[str, list[float]] = field(default_factory=lambda: {"batch_put": [], "batch_get": []})
    """Seconds of the yardstick's calls, by the step that they are compared with."""
    own: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the calls that they are compared with."""

    @property
    def plan(self) -> Plan:
        """What is to be done."""
        return self.run.plan

    def everything(self) -> None:
        """All stages in turn, then close."""
        about = self.session.about()
        self.release = self.run.report.store["client"]["release"] = about.release
        stages = [stage.of(about.release) for stage in STAGES if _can(stage, about, self.plan)]
        self.total = 1 + sum(len(stage.rows) * self.plan.rounds(stage) for stage in stages)
        self._stage(CONNECT)
        effects.transport(self.plan, self.session, self.run.report)
        self.run.report.connected = not self.over
        if not self.over:
            self._guard()
        for stage in stages:
            self._stage(stage)
        self._finish()

    def _guard(self) -> None:
        """Decide once, after set-up (a segment of our own counts), whether anything may be put."""
        watch, wanted, watermark = self.run.watch, self.plan.batch_bytes, effects.watermark(self.plan, self.run.watch)
        memory = guard.Memory(2 * self.plan.buffer_bytes, machine.look().memory_available)
        decision = guard.decide(watch.sample(), wanted, watermark, watch.problem, memory)
        self.run.report.store["guard"] = guard.described(decision, wanted, watermark)
        if not decision.may_put:
            self.no_put = "nothing was put"
            self.run.report.steps.append(Measure("put", Expect.zero).unanswered("NOT_PUT", decision.why, decision.next))

    def _stage(self, stage: Stage) -> None:
        """Run a stage's rounds; its steps go into the report, right or not, and what is not run says why."""
        report = self.run.report
        names = list(dict.fromkeys(row.step for row in stage.rows if row.shown))
        if self.over and not report.connected:
            return
        if why := self.over or (self.no_put if stage.writes else ""):
            there = {step.name for step in report.steps}
            report.not_run += [NotRun(name, why) for name in names if name not in there]
            return
        self.measures = {row.step: Measure(row.step, row.expect) for row in reversed(stage.rows)}
        self.failed = {}
        for turn in range(self.plan.rounds_at_most(stage)):
            if not self._round(stage, turn) or (turn + 1 >= self.plan.rounds(stage) and self._settled()):
                break
        finished = {name: self.measures[name].result() for name in names if self.measures[name].seconds}
        report.steps += (finished | self.failed).values()
        self.own |= {name: measure.seconds for name, measure in self.measures.items() if name in self.bare}
        report.not_run += [
            NotRun(name, f"{next(iter(self.failed))} failed") for name in names if name not in finished | self.failed
        ]

    def _round(self, stage: Stage, turn: int) -> bool:
        """One pass over the stage's rows, then the removal of its keys; False ends the stage."""
        rows = (self._row(stage, row, turn) for row in stage.rows)
        if stage.benched and self.plan.bench:
            # Each comes first every other time, so that neither always finds the caches as the other left them.
            right = (self._bare(turn) and all(rows)) if turn % 2 else (all(rows) and self._bare(turn))
        else:
            right = all(rows)
        if self.run.written and not self.session.dead:
            self._remove()
        return right and not self.over

    def _row(self, stage: Stage, row: Row, turn: int) -> bool:
        """One call; a bad answer is told with the story of its situation."""
        self.run.tick(row.step, self.done, self.total)
        self.done += 1
        keys, size, measure = self.plan.keys(row, turn), self.plan.object_bytes(row), self.measures[row.step]
        answer = self._call(row, keys, measure)
        if answer is None:
            return False
        if measure.add(answer, row.expect, size, moves=row.call in MOVING):
            return True
        right = size if row.expect is Expect.size else None
        code = next(
            (code for code in answer.codes if code < 0), next((code for code in answer.codes if code != right), 0)
        )
        self._went_wrong(stage, row, keys, code)
        return False

    def _call(self, row: Row, keys: list[str], measure: Measure) -> Answer | None:
        """Make the call; None where no code came back, which ends the probe."""
        if row.call in WRITES:
            self.run.written.update(keys)
            self.run.report.put += len(keys)
        try:
            if row.call == "setup":
                return self.session.setup(self._timeout(row))
            return self.session.call(row.call, timeout=self._timeout(row), **self._arguments(row, keys))
        except StoreTimeoutError:
            name, (meaning, following) = "TIMEOUT", stories.told(self._facts(row, None, keys))
        except StoreDiedError as error:
            name, meaning, following = (
                "CLIENT_DIED",
                str(error),
                "The native library ended its own process: report it with the log below.",
            )
        except StoreRefusedError as error:
            name, meaning, following = (
                "REFUSED",
                str(error),
                "Smaller --size or --pages need less memory; another release of the client may have the call.",
            )
        self.over = f"{row.step} ended the probe ({name})"
        self.run.report.unfinished = self.session.unfinished
        self.failed[row.step] = measure.unanswered(name, meaning, following)
        return None

    def _timeout(self, row: Row) -> float:
        if row.call in SLOW_BUT_NO_STORE_CALL:
            return self.plan.timeout + LOAD_TIMEOUT_S
        if row.call == "setup":
            return max(self.plan.timeout - self.spent, self.plan.timeout / 3)
        return self.plan.timeout * (2 if row is BARE else 1)

    def _arguments(self, row: Row, keys: list[str]) -> dict[str, object]:
        arguments: dict[str, object] = {
            "size": self.plan.object_bytes(row),
            # Where nothing is put, nothing is read either: large buffers would only take memory from the engines of this host.
            "bytes": SMALLEST_BUFFER if self.no_put else self.plan.buffer_bytes,
            "elements": row.elements,
        }
        if row.keys is Keys.one:
            arguments["key"] = keys[0]
        elif keys:
            arguments["keys"] = keys
        return arguments

    def _went_wrong(self, stage: Stage, row: Row, keys: list[str], code: int) -> None:
        """Report the step with its story, and decide what may still run."""
        measure = self.measures[row.step]
        facts = self._facts(row, code, keys)
        meaning, following = ("", "") if measure.different else stories.told(facts)
        self.failed[row.step] = measure.result(meaning, following)
        reason = f"{row.step} returned {code}" if not measure.different else f"{row.step} returned wrong bytes"
        if row.call == "setup" or code == -900:
            self.over = reason
        elif stage.writes and not (code == -200 and facts.capacity == 0):
            self.no_put = reason

    def _facts(self, row: Row, code: int | None, keys: list[str]) -> stories.Facts:
        watch = self.run.watch
        health, sample = watch.health(), watch.sample()
        return stories.Facts(
            row=row,
            code=code,
            timeout=self.plan.timeout,
            release=self.release,
            log=self.session.log(),
            service_ready=health.service_ready if health is not None else None,
            capacity=int(sample["capacity_bytes"]) if sample is not None else None,
            used=int(sample["used_bytes"]) if sample is not None else None,
            segments=tuple(watch.segments()) if sample is not None else (),
            is_admin_port=row.call == "setup" and watch.answers_as_admin(self.plan.settings.master_server_address),
            endpoint=watch.endpoint(keys[0]) if row.expect is Expect.size and keys and sample is not None else "",
        )

    def _settled(self) -> bool:
        """Whether no kind of call has become faster in the last rounds, by more than a hundredth; without a yardstick, always."""
        series = [self.measures[name].seconds for name in self.bare if name in self.measures] + list(self.bare.values())
        return all(
            len(seconds) > BENCH_QUIET_ROUNDS and min(seconds) >= 0.99 * min(seconds[:-BENCH_QUIET_ROUNDS])
            for seconds in series
            if seconds and self.plan.bench
        )

    def _bare(self, turn: int) -> bool:
        """One round of the yardstick, under keys of its own."""
        measure = Measure(BARE.step, BARE.expect)
        answer = self._call(BARE, self.plan.keys(BARE, turn), measure)
        if answer is None or not measure.add(answer, BARE.expect, self.plan.size, moves=False):
            return False
        for name, seconds in zip(self.bare, answer.seconds, strict=True):
            self.bare[name].append(seconds)
        return True

    def _remove(self) -> None:
        """Remove all own keys; one that is not there was never taken (a zero-element tensor), and is no fault."""
        keys = sorted(self.run.written)
        answer = self._call(REMOVE, keys, self.removal)
        if answer is not None:
            self.run.gone(keys, answer.codes)
            codes = tuple(0 if code in GONE else code for code in answer.codes)
            if not self.removal.add(Answer(codes, answer.seconds), REMOVE.expect, 0, moves=False):
                code = min(codes)
                self.removal_story = stories.told(self._facts(REMOVE, code, keys))
                self.over = self.over or f"remove returned {code}"

    def _finish(self) -> None:
        """The removal's step, the yardstick, the log of a failure, and close."""
        report = self.run.report
        if self.removal.seconds and REMOVE.step not in self.failed:
            report.steps.append(self.removal.result(*self.removal_story))
        for name, bare in self.bare.items():
            if bare and (own := self.own.get(name)):
                report.bench.append(Bench(name, self.plan.batch_bytes, tuple(own), tuple(bare)))
        if report.failed:
            report.log = self.session.trouble()
        if report.connected and (answer := self.session.close()) is not None:
            measure = Measure("close", Expect.zero)
            measure.add(answer, Expect.zero, 0, moves=False)
            report.steps.append(measure.result())


def _can(stage: Stage, about: About, plan: Plan) -> bool:
    if stage.needs is Needs.tensors and not (plan.tensors and about.torch):
        return False
    return stage.needs is Needs.nothing or stage.needs.value in about.methods


def _admin(plan: Plan) -> Admin | None:
    if plan.admin_url is not None:
        return Admin(plan.admin_url, "given")
    return locate(plan.settings.master_server_address, plan.admin_port)
