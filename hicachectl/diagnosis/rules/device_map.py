"""A device_name that names no device for this rank: A08; Mooncake then chooses its devices, without a word."""

import json
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.take import number, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """A map of devices by rank (SGLang `mooncake_store.py`, MooncakeStore.__init__) in which this rank's entry is not there."""
    for engine in world.engines.values():
        config = engine.last(v.BACKEND_CONFIG)
        rank = number(engine.last(v.BACKEND_CREATE), v.TP_RANK)
        why = _fault(text(config, v.DEVICE_NAME) or "", engine.tp_rank if rank is None else rank)
        if why is not None:
            args: dict[str, object] = {"reason": why, "rank": engine.tp_rank if rank is None else rank, "device_name": text(config, v.DEVICE_NAME)}
            yield of_engine(engine, "A08", args=args, evidence=(config, engine.last(v.BACKEND_CREATE)))


def _fault(given: str, rank: int) -> str | None:
    """Why a map gives this rank nothing; a plain name is no map."""
    if not given.strip().startswith("{"):
        return None
    try:
        devices = json.loads(given)
    except (ValueError, RecursionError):
        return "is not JSON"
    return None if devices.get(str(rank)) else "has no entry for this rank"


RULE = Rule("devices by rank", ("A08",), (v.BACKEND_CONFIG, v.BACKEND_CREATE), of_world=judge)
