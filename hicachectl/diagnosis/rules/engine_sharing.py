"""The store made a second Transfer Engine beside the engine's own: A05, with the condition that did not hold."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import Engine
from hicachectl.model.take import flag, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """An engine exists, is not shared, and the store does not run on TCP, where it never is (SGLang `mooncake_store.py`, MooncakeStore.__init__)."""
    for engine in world.engines.values():
        opened, setup = engine.opened(), engine.last(v.STORE_SETUP)
        if not flag(opened, v.ENGINE_EXISTS) or flag(opened, v.ENGINE_SHARED):
            continue
        if "tcp" not in (text(opened, v.PROTOCOL), text(setup, v.PROTOCOL_IN_USE)):
            args: dict[str, object] = {"condition": "; ".join(_failed(engine)) or "no reason was seen"}
            yield of_engine(engine, "A05", args=args, evidence=(opened, engine.last(v.BACKEND_CONFIG), setup))


def _failed(engine: Engine) -> Iterator[str]:
    """The conditions that did not hold, in the order in which SGLang asks them."""
    opened, config = engine.opened(), engine.last(v.BACKEND_CONFIG)
    theirs, ours = text(opened, v.ENGINE_DEVICE), text(config, v.DEVICE_NAME) or ""
    if theirs is not None and ours != theirs:
        yield f"device_name is {ours or 'empty'}, the engine's device is {theirs or 'empty'}"
    metadata = text(config, v.METADATA)
    if metadata is not None and metadata != "P2PHANDSHAKE":
        yield f"the metadata server is {metadata}, not P2PHANDSHAKE"
    protocol = text(opened, v.PROTOCOL) or text(config, v.PROTOCOL)
    if protocol is not None and protocol != "rdma":
        yield f"the protocol is {protocol}, not rdma"


RULE = Rule("engine sharing", ("A05",), (v.BACKEND_OPEN, v.BACKEND_CONFIG, v.STORE_SETUP), of_world=judge)
