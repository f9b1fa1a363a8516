"""An engine with the external linker beside one with HiCache: K09, they store the same prompts under keys of their own."""

from collections import defaultdict
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, finding
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import flag
from hicachectl.model.world import World
from tracers import vocabulary as v

COMMON = 3
"""Block of the fingerprint that two prompts must share: they begin with the same 64 tokens."""


def judge(world: World) -> Iterator[Finding]:
    """Two engines that were asked for a common prefix, one of them through the linker."""
    if not any(_linked(engine) for engine in world.engines.values()):
        return
    beginnings: dict[str, dict[str, str]] = defaultdict(dict)
    for journey in world.journeys:
        attempt = journey.attempt
        if len(attempt.fingerprint) > COMMON and (attempt.engine.backend_name is not None or _linked(attempt.engine)):
            beginnings[attempt.fingerprint[COMMON]].setdefault(attempt.engine.id, attempt.rid)
        journey.forget()
    met: dict[tuple[str, str], tuple[str, str]] = {}
    for asked in beginnings.values():
        linked = {engine: rid for engine, rid in asked.items() if _linked(world.engines[engine])}
        for theirs, one in linked.items():
            for ours, other in asked.items():
                if ours not in linked:
                    met.setdefault((theirs, ours), (one, other))
    for (theirs, ours), rids in sorted(met.items()):
        spans = [world.engines[each].first(v.ENGINE_START) for each in (theirs, ours)]
        yield finding("K09", args={"theirs": theirs, "ours": ours}, evidence=spans, rids=list(dict.fromkeys(rids)), engines=[theirs, ours])


def _linked(engine: Engine) -> bool:
    return flag(engine.first(v.ENGINE_START), v.LINKER)


RULE = Rule("linker beside HiCache", ("K09",), (v.ENGINE_START, v.REQUEST_QUEUED), of_world=judge)
