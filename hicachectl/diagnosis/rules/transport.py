"""rdma asked for, no RDMA device visible: everything runs on TCP (A101)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import number, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Asked and possible transport, where setup succeeded all the same."""
    for engine in world.engines.values():
        setup = engine.last(v.STORE_SETUP)
        asked, used = text(setup, v.PROTOCOL), text(setup, v.PROTOCOL_IN_USE)
        if asked == "rdma" and used == "tcp" and number(setup, v.CODE) == 0:
            args: dict[str, object] = {"asked": asked, "in_use": used, "devices": number(setup, v.RDMA_DEVICES)}
            yield of_engine(engine, "A101", args=args, evidence=(setup,))


RULE = Rule("transport", ("A101",), (v.STORE_SETUP,), of_world=judge)
