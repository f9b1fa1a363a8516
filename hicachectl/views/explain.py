"""`explain` as JSON and as text: the ladder, the token account, the findings with their evidence."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hicachectl.diagnosis.run import Verdict
from hicachectl.exits import one_line
from hicachectl.model.engine import Engine
from hicachectl.model.journey import RUNGS
from hicachectl.model.take import text
from hicachectl.model.world import World
from hicachectl.views import palette
from hicachectl.views.explained import TOKENS, Row, as_json, finding_row
from hicachectl.views.table import drawn
from tracers import vocabulary as v

__all__ = ["as_json", "as_text", "engine_row", "finding_row", "head_row", "request_row"]


def head_row(seen: World) -> Row:
    """What stands before the requests: how far the recording can be trusted, and the schedulers."""
    recording = seen.recording
    return {
        "runs": recording.paths,
        "complete": recording.complete,
        "incomplete": recording.incomplete,
        "dropped_spans": recording.dropped,
        "engines": [engine_row(engine) for engine in seen.engines.values() if engine.scheduler],
    }


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
        "page_size": engine.number(v.PAGE_SIZE),
        "tree": engine.text(v.TREE),
        "backend": {
            "name": engine.backend_name,
            "state": state,
            "setup_code": engine.setup_code,
            "registered_bytes": engine.registered_bytes,
            "uncovered_buffers": engine.uncovered,
            "evidence": evidence,
            "transport": {"asked": text(setup, v.PROTOCOL) or text(config, v.PROTOCOL), "in_use": text(setup, v.PROTOCOL_IN_USE) or text(config, v.PROTOCOL_IN_USE)},
        },
        "points": {"installed": engine.installed, "missing": engine.blind},
        "attached": _attached(engine),
        "export_dropped": engine.ledger.unsent if engine.ledger is not None else 0,
    }


def _attached(engine: Engine) -> dict[str, Any] | None:
    """When the recording of a running engine began and how many requests had begun before; null where it was recorded from its start."""
    return None if engine.attached_ms is None else {"at_ms": engine.attached_ms, "requests_left_out": engine.left_out}


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
        "ranks": each.ranks,
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


def as_text(head: Row, requests: Iterable[Row], findings: Callable[[], Iterable[Row]], *, width: int | None, colour: bool) -> Iterator[str]:
    """The same for a person, from the same rows."""
    draw = partial(drawn, width=width, colour=colour)
    yield from map(draw, _engines(head))
    yield from (draw(_request(each)) for each in requests)
    yield from map(draw, _findings(list(findings())))


def _engines(head: Row) -> Iterator[RenderableType]:
    for engine in head["engines"]:
        backend, points = engine["backend"], engine["points"]
        yield Text.assemble(
            ("engine ", palette.HEADING),
            (one_line(engine["engine"]), palette.NAME),
            f"  SGLang {one_line(engine['sglang'] or '?')}, Mooncake {one_line(engine['mooncake'] or '?')}, rank {engine['tp_rank']} of {engine['tp_size']}, page size {engine['page_size'] or '?'}",
            ("  a CPU stands in for the GPU" if engine["stand_in"] else ""),
        )
        yield Text.assemble(
            f"  backend {one_line(backend['name'] or 'none')}: ",
            (backend["state"], palette.RUNGS.get(backend["state"], "")),
            f", setup {backend['setup_code'] if backend['setup_code'] is not None else '-'}, {backend['registered_bytes']} bytes registered",
            f", {backend['uncovered_buffers']} buffers outside them" if backend["uncovered_buffers"] else "",
            f", {points['installed']} hook points on",
            f", blind: {', '.join(map(one_line, points['missing']))}" if points["missing"] else "",
        )
        if engine["attached"]:
            out = engine["attached"]["requests_left_out"]
            begun = f"; {out} requests that had begun before are left out" if out else ""
            yield Text(f"  attached after start: how its backend was created was not seen, the settings were read then{begun}", palette.FAINT)
        if engine["export_dropped"]:
            yield Text(f"  {engine['export_dropped']} spans did not reach the collector", palette.WARNING)
    for reason in head["incomplete"]:
        yield Text(f"incomplete: {one_line(reason)}", palette.WARNING)


def _request(each: Row) -> RenderableType:
    ladder = Text("  ")
    for name in RUNGS:
        state = each["ladder"][name]
        ladder.append(f"{name} ")
        ladder.append(state, palette.RUNGS.get(state, ""))
        ladder.append("  ")
    again = f" (attempt {each['attempt']})" if each["attempt"] else ""
    head = Text.assemble("\n", ("request ", palette.HEADING), (one_line(each["rid"]), palette.NAME), again)
    return Group(head, Text(f"  {one_line(each['verdict'])}"), ladder, *_account(each), *_ranks(each["ranks"]))


def _account(each: Row) -> Iterator[RenderableType]:
    """The sums of the token account, and the engine's own split; nothing where no prefill was seen."""
    tokens, lost = each["tokens"], sum(loss["tokens"] for loss in each["lost"])
    reused, claims = tokens["reused"], tokens["engine_claims"]
    if tokens["computed"] is None:
        return
    yield Text(
        f"  tokens: {each['prompt_tokens']} prompt = {reused['device']} device + {reused['host']} host + {reused['storage']} storage + {tokens['computed']} computed"
        f" ({lost} lost, {tokens['new']} new, {tokens['tail']} tail)"
    )
    yield Text(f"  engine claims: {claims['device']} device, {claims['host']} host, {claims['storage']} storage", palette.FAINT)


def _ranks(ranks: list[Row]) -> Iterator[RenderableType]:
    """What each rank found and read; nothing where one rank served the request."""
    if not ranks:
        return
    told = [f"{word} {', '.join('-' if each[key] is None else str(each[key]) for each in ranks)} tokens" for word, key in (("found", "found_tokens"), ("read", "read_tokens"))]
    for word, key in (("lookup", "lookup_after_ms"), ("transfer", "transfer_after_ms")):
        late = [each[key] for each in ranks if each[key] is not None]
        told += [f"{word} {max(late):.1f} ms apart"] if len(late) > 1 else []
    yield Text(f"  ranks {', '.join(str(each['rank']) for each in ranks)}: {'; '.join(told)}", palette.FAINT)


def _findings(findings: list[Row]) -> Iterator[RenderableType]:
    if not findings:
        yield Text("\nno findings", palette.GOOD)
        return
    yield Text("\nfindings", palette.HEADING)
    for each in findings:
        rids, engines, evidence = each["rids"], each["engines"], each["evidence"]
        whom = f"{len(rids)} requests" if len(rids) > 1 else (one_line(rids[0]) if rids else f"{len(engines)} engines")
        head = Text.assemble(
            (f"{each['code']} ", palette.HEADING),
            (f"{each['level']} ", palette.LEVELS.get(each["level"], "")),
            one_line(each["title"]),
            (f"  [{whom}{', ' + str(each[TOKENS]) + ' tokens' if each[TOKENS] else ''}]", palette.FAINT),
            ("  not certain" if not each["certain"] else "", palette.WARNING),
        )
        yield Padding(head, (0, 0, 0, 2))
        if "written_through" in each["args"]:
            where = f"written through master {each['args']['written_through']}, asked through {each['args']['asked_through']}: where these are two stores, nothing was lost"
            yield Padding(Text(one_line(where), palette.WARNING), (0, 0, 0, 4))
        if each["folded"]:
            yield Padding(Text(f"folded: {', '.join(each['folded'])}", palette.FAINT), (0, 0, 0, 4))
        yield Padding(Text(f"evidence: {' '.join(evidence[:4])}{' ...' if len(evidence) > 4 else ''}", palette.FAINT), (0, 0, 0, 4))
        yield Padding(Text(f"next: {each['next']}"), (0, 0, 0, 4))
