"""A get that has not returned for longer than it may: R102, while it waits."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.diagnosis.rules.short_transfer import deadline
from hicachectl.model.engine import Engine
from hicachectl.model.world import World
from tracers import vocabulary as v

LONGEST_S = 5.0


def judge(world: World) -> Iterator[Finding]:
    """Since when, for which request, of which owner; what came later behind it waits as well."""
    for engine in world.engines.values():
        for began_ms, rid, key in engine.hanging():
            seconds, may = (engine.seen_ms - began_ms) / 1000, _may(world, engine, rid)
            if seconds < may:
                continue
            behind = _behind(world, engine, began_ms)
            args: dict[str, object] = {
                "seconds": round(seconds, 1),
                "deadline": may,
                "since_ms": began_ms,
                "key": key,
                "endpoint": world.owner(key) or "not known",
                "waiting": len(behind),
            }
            told = of_engine(engine, "R102", args=args, evidence=(engine.last(v.LEDGER), *_lookup(world, engine, rid)), causal=True)
            told.rids = list(dict.fromkeys([*([rid] if rid else []), *behind]))
            yield told


def _may(world: World, engine: Engine, rid: str | None) -> float:
    """The policy's deadline where it has one, and 5 s at most."""
    journey = next((each for each in world.journeys if each.attempt.engine is engine and each.attempt.rid == rid), None)
    told = deadline(journey) if journey is not None and engine.text(v.STOP_POLICY, journey.attempt.start_ns) == "timeout" else None
    return min(told, LONGEST_S) if told is not None else LONGEST_S


def _behind(world: World, engine: Engine, began_ms: int) -> list[str]:
    """Requests whose pages were found and not read since."""
    found = [each for each in world.journeys if each.attempt.engine is engine and each.lookup is not None and each.lookup.end_ns >= began_ms * 1_000_000]
    return [each.attempt.rid for each in found if each.transfer is None and each.enough]


def _lookup(world: World, engine: Engine, rid: str | None) -> list[str]:
    return [each.lookup.span_id for each in world.journeys if each.attempt.engine is engine and each.attempt.rid == rid and each.lookup is not None]


RULE = Rule("get hangs", ("R102",), (v.LEDGER, v.STORE_REPLICA, v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.TREE_OPEN), of_world=judge)
