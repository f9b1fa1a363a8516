"""What a recording is about, without keeping it in memory: versions, requests, whether it is complete."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hicachectl.exits import BadInputError
from hicachectl.store import files, ledger
from hicachectl.store.completeness import reasons
from hicachectl.store.ledger import Ledger
from hicachectl.store.lines import BrokenLineError, Decoder
from hicachectl.store.recording import lines
from hicachectl.store.span import Span, Value
from tracers import vocabulary as v

_WARMUP_TOKENS = 16
"""The warm-up prompts of SGLang's HTTP server are shorter (`entrypoints/http_server.py`, _execute_server_warmup)."""


@dataclass(slots=True)
class Outline:
    """A recording at a glance."""

    requests: int = 0
    """Requests that entered a queue, each attempt and each engine once; health checks and warm-up left out."""
    spans: int = 0
    engines: list[str] = field(default_factory=list)
    """Ids of the processes that run a scheduler."""
    sglang: list[str] = field(default_factory=list)
    mooncake: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)


def outline(run: Path) -> Outline:
    """Read through RUN once; UnreachableError where it is no recording, BadInputError where nothing in it can be read."""
    reading = _Reading()
    for source in files.span_files(run):
        for line, whole in lines(source):
            reading.take(line, whole)
    if not reading.good and reading.broken:
        raise BadInputError(f"nothing in {run} can be read as a recording")
    return reading.result(run)


class _Reading:
    """One call of `outline`."""

    def __init__(self) -> None:
        self.out = Outline()
        self.decoder = Decoder()
        self.have: Counter[str] = Counter()
        self.good = self.broken = self.cut = 0
        self.schedulers: set[str] = set()
        self.queued: list[tuple[str, int, int]] = []
        """(engine, start, prompt tokens)"""
        self.warmups: list[tuple[int, int]] = []

    def take(self, line: bytes, whole: bool) -> None:
        """Count what a line holds; one that is not WHOLE is the last of its file and may be cut."""
        try:
            spans = self.decoder.spans(line)
        except BrokenLineError:
            self.broken, self.cut = self.broken + whole, self.cut + (not whole)
            return
        self.good += 1
        self.out.spans += len(spans)
        for span in spans:
            self.have[span.engine] += 1
            if span.name == v.REQUEST_QUEUED:
                self._queue(span)
            elif span.name in (v.ENGINE_START, v.ENGINE):
                self.schedulers.add(span.engine)
            elif span.name == v.WARMUP:
                self.warmups.append((span.start_ns, span.end_ns))

    def _queue(self, span: Span) -> None:
        told = span.attributes
        rid, prompt = str(told.get(v.RID, "")), told.get(v.PROMPT_TOKENS)
        if told.get(v.RETRACTED) is not True and not rid.startswith(v.HEALTH_RID_PREFIX):
            self.queued.append((span.engine, span.start_ns, prompt if isinstance(prompt, int) else 0))

    def result(self, run: Path) -> Outline:
        """The outline, once every line was taken."""
        out, resources = self.out, self.decoder.resources
        ledgers = self._ledgers(run)
        ranked = {
            engine
            for engine, told in resources.items()
            if told.get(v.R_TP_RANK, 0) == 0 and told.get(v.R_PP_RANK, 0) == 0
        }
        out.requests = sum(
            engine in ranked and not self._is_warmup(start, prompt) for engine, start, prompt in self.queued
        )
        out.engines = sorted(self.schedulers | {one.engine for one in ledgers.values() if one.scheduler})
        out.sglang = _versions(resources, ledgers, v.R_SGLANG, "sglang")
        out.mooncake = _versions(resources, ledgers, v.R_MOONCAKE, "mooncake")
        out.command = _command(run)
        out.incomplete = [sentence for sentence, _ in reasons(resources, ledgers, self.have)]
        out.incomplete += [f"{self.cut} last lines end in the middle"] if self.cut else []
        out.incomplete += [f"{self.broken} lines cannot be read"] if self.broken else []
        return out

    def _ledgers(self, run: Path) -> dict[str, Ledger]:
        found = [ledger.from_file(path) for path in files.ledger_files(run)]
        return {one.engine: one for one in found if one is not None}

    def _is_warmup(self, start: int, prompt: int) -> bool:
        return prompt <= _WARMUP_TOKENS and any(begin <= start <= end for begin, end in self.warmups)


def _versions(
    resources: Mapping[str, Mapping[str, Value]], ledgers: dict[str, Ledger], key: str, name: str
) -> list[str]:
    found = {str(told[key]) for told in resources.values() if told.get(key)}
    return sorted(found | {version for one in ledgers.values() if (version := one.versions.get(name))})


def _command(run: Path) -> list[str]:
    try:
        told = msgspec.json.decode((run / files.RUN_FILE).read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    command = told.get("command") if isinstance(told, dict) else None
    return [str(word) for word in command] if isinstance(command, list) else []
