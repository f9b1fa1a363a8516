"""Buffers of a prefill or decode engine whose registration failed, and nobody looked: A21."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import number, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """The first registration of each engine that came back with a code (SGLang `disaggregation/mooncake/conn.py`, register_buffer_to_engine)."""
    for engine in world.engines.values():
        failed = [span for span in engine.all(v.PD_REGISTER) if text(span, v.OUTCOME) == v.DECLINED]
        if failed:
            first = failed[0]
            args: dict[str, object] = {
                "buffers": number(first, v.OBJECTS),
                "code": number(first, v.CODE),
                "bytes": number(first, v.BYTES),
                "limit": number(first, v.MEMLOCK),
                "mode": text(engine.first(v.ENGINE_START), v.DISAGGREGATION),
            }
            yield of_engine(engine, "A21", args=args, evidence=failed[:8])


RULE = Rule("disaggregation buffers", ("A21",), (v.PD_REGISTER, v.ENGINE_START), of_world=judge)
