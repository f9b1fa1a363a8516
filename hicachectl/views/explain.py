"""`explain` as JSON and as text: the ladder, the token account, the findings with their evidence."""

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hicachectl.diagnosis.finding import Finding
from hicachectl.diagnosis.run import Diagnosis, Verdict
from hicachectl.exits import one_line
from hicachectl.model.engine import Engine
from hicachectl.model.journey import RUNGS
from hicachectl.model.take import text
from hicachectl.views import palette
from hicachectl.views.table import document, drawn
from tracers import vocabulary as v


def as_json(found: Diagnosis, requests: Iterable[Verdict], findings: Iterable[Finding]) -> str:
    """The document `hicachectl/explain/1`."""
    recording = found.world.recording
    return document(
        "explain",
        {
            "runs": recording.paths,
            "complete": recording.complete,
            "incomplete": recording.incomplete,
            "dropped_spans": recording.dropped,
            "engines": [engine_row(engine) for engine in found.world.engines.values() if engine.scheduler],
            "requests": [request_row(each) for each in requests],
            "findings": [finding_row(each) for each in findings],
        },
    )


def engine_row(engine: Engine) -> dict[str, Any]:
    """One scheduler process."""
    state, evidence = engine.backend_state()
    setup, config = engine.last(v.STORE_SETUP), engine.last(v.BACKEND_CONFIG)
    return {
        "engine": engine.id,
        "pid": engine.pid,
        "host": engine.host,
        "sglang": engine.sglang,
        "mooncake": engine.mooncake,
        "tp_rank": engine.tp_rank,
        "tp_size": engine.tp_size,
        "pp_rank": engine.pp_rank,
        "device": engine.text(v.DEVICE),
        "stand_in": engine.stand_in,
        "page_size": engine.page_size,
        "tree": engine.text(v.TREE),
        "backend": {
            "name": engine.backend_name,
            "state": state,
            "setup_code": engine.setup_code,
            "registered_bytes": engine.registered_bytes,
            "uncovered_buffers": engine.uncovered,
            "evidence": evidence,
            "transport": {
                "asked": text(setup, v.PROTOCOL) or text(config, v.PROTOCOL),
                "in_use": text(setup, v.PROTOCOL_IN_USE) or text(config, v.PROTOCOL_IN_USE),
            },
        },
        "points": {"installed": engine.installed, "missing": engine.blind},
        "export_dropped": engine.ledger.unsent if engine.ledger is not None else 0,
    }


def request_row(each: Verdict) -> dict[str, Any]:
    """One request."""
    account = each.account
    return {
        "rid": each.journey.attempt.rid,
        "attempt": each.journey.attempt.number,
        "engine": each.journey.attempt.engine.id,
        "prompt_tokens": account.prompt,
        "ladder": {name: each.ladder[name].state for name in RUNGS},
        "rungs": {name: {"pages_asked": rung.asked, "pages_done": rung.done, "evidence": rung.evidence[:16]} for name, rung in each.ladder.items()},
        "tokens": _tokens(each),
        "writers": [{"engine": engine, "rid": rid, "tokens": tokens} for engine, rid, tokens in account.writers],
        "lost": [{"code": loss.code, "tokens": loss.tokens, "certain": loss.certain, "evidence": loss.evidence} for loss in each.lost],
        "times_ms": each.times,
        "verdict": each.sentence,
    }


def _tokens(each: Verdict) -> dict[str, Any]:
    """The token account; a request that never reached a prefill has none, and says so with nulls."""
    account, prefilled = each.account, each.journey.prefix is not None
    parts = {
        "reused": {"device": account.device, "host": account.host, "storage": account.storage},
        "computed": account.computed,
        "new": each.new,
        "tail": account.tail,
        "engine_claims": account.claims,
    }
    return parts if prefilled else {name: dict.fromkeys(part) if isinstance(part, dict) else None for name, part in parts.items()}


def finding_row(each: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "code": each.code,
        "level": each.level,
        "title": each.title,
        "rids": each.rids,
        "engines": each.engines,
        "args": each.args,
        "evidence": each.evidence,
        "certain": each.certain,
        "folded": each.folded,
        "next": each.next,
    }


def as_text(found: Diagnosis, requests: Iterable[Verdict], findings: Iterable[Finding], *, width: int | None, colour: bool) -> str:
    """The same for a person."""
    parts: list[RenderableType] = [*_engines(found), *_incomplete(found)]
    parts += [_request(each) for each in requests]
    parts += _findings(list(findings))
    return drawn(Group(*parts), width=width, colour=colour)


def _engines(found: Diagnosis) -> Iterable[RenderableType]:
    for engine in found.world.engines.values():
        if engine.scheduler:
            state = engine.backend_state()[0]
            row = Text.assemble(
                ("engine ", palette.HEADING),
                (one_line(engine.id), palette.NAME),
                f"  SGLang {engine.sglang or '?'}, Mooncake {engine.mooncake or '?'}, rank {engine.tp_rank} of {engine.tp_size}, page size {engine.page_size}",
                ("  a CPU stands in for the GPU" if engine.stand_in else ""),
            )
            yield row
            backend = Text.assemble(
                f"  backend {one_line(engine.backend_name or 'none')}: ",
                (state, palette.RUNGS.get(state, "")),
                f", setup {engine.setup_code if engine.setup_code is not None else '-'}, {engine.registered_bytes} bytes registered",
                f", {engine.uncovered} buffers outside them" if engine.uncovered else "",
                f", {engine.installed} hook points on",
                f", blind: {', '.join(engine.blind)}" if engine.blind else "",
            )
            yield backend
            if engine.ledger is not None and engine.ledger.unsent:
                yield Text(f"  {engine.ledger.unsent} spans did not reach the collector", palette.WARNING)


def _incomplete(found: Diagnosis) -> Iterable[RenderableType]:
    for reason in found.world.recording.incomplete:
        yield Text(f"incomplete: {one_line(reason)}", palette.WARNING)


def _request(each: Verdict) -> RenderableType:
    ladder = Text("  ")
    for name in RUNGS:
        state = each.ladder[name].state
        ladder.append(f"{name} ")
        ladder.append(state, palette.RUNGS.get(state, ""))
        ladder.append("  ")
    again = f" (attempt {each.journey.attempt.number})" if each.journey.attempt.number else ""
    head = Text.assemble("\n", ("request ", palette.HEADING), (one_line(each.journey.attempt.rid), palette.NAME), again)
    return Group(head, Text(f"  {one_line(each.sentence)}"), ladder, *_account(each))


def _account(each: Verdict) -> Iterable[RenderableType]:
    """The sums of the token account, and the engine's own split; nothing where no prefill was seen."""
    account, claims = each.account, each.account.claims
    if each.journey.prefix is None:
        return
    yield Text(
        f"  tokens: {account.prompt} prompt = {account.device} device + {account.host} host + {account.storage} storage + {account.computed} computed"
        f" ({each.lost_tokens} lost, {each.new} new, {account.tail} tail)"
    )
    yield Text(f"  engine claims: {claims['device']} device, {claims['host']} host, {claims['storage']} storage", palette.FAINT)


def _findings(findings: list[Finding]) -> list[RenderableType]:
    if not findings:
        return [Text("\nno findings", palette.GOOD)]
    parts: list[RenderableType] = [Text("\nfindings", palette.HEADING)]
    for each in findings:
        whom = f"{len(each.rids)} requests" if len(each.rids) > 1 else (one_line(each.rids[0]) if each.rids else f"{len(each.engines)} engines")
        head = Text.assemble(
            (f"{each.code} ", palette.HEADING),
            (f"{each.level} ", palette.LEVELS.get(each.level, "")),
            one_line(each.title),
            (f"  [{whom}{', ' + str(each.tokens) + ' tokens' if each.tokens else ''}]", palette.FAINT),
            ("  not certain" if not each.certain else "", palette.WARNING),
        )
        parts.append(Padding(head, (0, 0, 0, 2)))
        if each.folded:
            parts.append(Padding(Text(f"folded: {', '.join(each.folded)}", palette.FAINT), (0, 0, 0, 4)))
        parts.append(Padding(Text(f"evidence: {' '.join(each.evidence[:4])}{' ...' if len(each.evidence) > 4 else ''}", palette.FAINT), (0, 0, 0, 4)))
        parts.append(Padding(Text(f"next: {each.next}"), (0, 0, 0, 4)))
    return parts
