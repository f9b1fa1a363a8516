"""A tp_lcm_size that splits no heads: A18, for engines of another size will not find the objects."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import flag, number, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Asked for, and no heads are split; one as large as this engine's own size has nothing to split and is right."""
    for engine in world.engines.values():
        create = engine.last(v.BACKEND_CREATE)
        lcm, size = number(create, v.LCM_SIZE), number(create, v.TP_SIZE)
        if lcm and not flag(create, v.LAYOUT_SPLIT) and lcm != size:
            args: dict[str, object] = {"tp_lcm_size": lcm, "reason": _reason(engine)}
            yield of_engine(engine, "A18", args=args, evidence=(create, engine.last(v.CONTROLLER_OPEN), engine.last(v.ENGINE)))


def _reason(engine: Engine) -> str:
    """The first condition that does not hold (SGLang `managers/cache_controller.py`, _generate_storage_config)."""
    if flag(engine.last(v.BACKEND_CREATE), v.REPLICATED):
        return "every rank of this model holds the same KV"
    layout = text(engine.last(v.CONTROLLER_OPEN), v.MEM_LAYOUT) or text(engine.last(v.ENGINE), v.MEM_LAYOUT)
    return f"the host memory layout is {layout or 'not known'}, not page_head"


RULE = Rule("split heads", ("A18",), (v.BACKEND_CREATE, v.CONTROLLER_OPEN, v.ENGINE), of_world=judge)
