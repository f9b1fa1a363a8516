"""Rows of `explain` from what was judged: how far the recording can be trusted, its schedulers, its requests. Nothing is drawn here."""

from typing import Any

from hicachectl.diagnosis.run import Verdict
from hicachectl.model.engine import Engine
from hicachectl.model.journey import RUNGS
from hicachectl.model.take import text
from hicachectl.model.world import World
from hicachectl.views.explained import Row
from tracers import vocabulary as v


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
