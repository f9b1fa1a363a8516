"""A prefetch limit of 0 tokens: the host pool is no larger than the device pool, so every prefetch is declined (A19)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import number
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """The limit that the controller computed, with both pools."""
    for engine in world.engines.values():
        attach, pools = engine.last(v.BACKEND_ATTACH), engine.last(v.CONTROLLER_OPEN)
        if number(attach, v.CAPACITY_LIMIT) == 0:
            args: dict[str, object] = {"limit": 0, "host_tokens": number(pools, v.HOST_TOKENS), "device_tokens": number(pools, v.DEVICE_TOKENS)}
            refused = any(journey.gate_reason == "R05" for journey in world.journeys if journey.attempt.engine is engine)
            yield of_engine(engine, "A19", args=args, evidence=(attach, pools), causal=refused)


RULE = Rule("prefetch limit", ("A19",), (v.BACKEND_ATTACH, v.CONTROLLER_OPEN), of_world=judge)
