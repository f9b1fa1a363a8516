"""The backend does not exist or cannot serve: A01, A03, A06, A07, A11; a refused registration has a rule of its own."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.engine import NO, Engine
from hicachectl.model.take import failed, number, text
from hicachectl.model.world import World
from hicachectl.mooncake.errors import store
from tracers import vocabulary as v

CAUSES = {
    -1: "nothing that speaks the master's protocol answers at this address",
    -900: "the master answers and does not understand: it is of another release than this client (which one it is cannot be asked)",
}
"""What a code of setup means where nothing else is known (seen with Mooncake 0.3.11.post1 and 0.3.13.post1 against each other)."""


def judge(world: World) -> Iterator[Finding]:
    """One finding for each scheduler whose backend failed: the first step that did."""
    for engine in world.engines.values():
        tried = engine.last(v.BACKEND_CREATE) or engine.last(v.BACKEND_ATTACH)
        # A scheduler that failed before it came to its backend says nothing of the backend.
        if engine.scheduler and tried is not None and engine.backend_state()[0] == NO:
            fault = _first_fault(engine)
            if fault is not None:
                yield fault


def _first_fault(engine: Engine) -> Finding | None:
    create, setup, warmup, attach = (engine.last(name) for name in (v.BACKEND_CREATE, v.STORE_SETUP, v.BACKEND_WARMUP, v.BACKEND_ATTACH))
    code = number(setup, v.CODE)
    if code not in (None, 0):
        row = store(code)
        master = text(engine.last(v.BACKEND_CONFIG), v.MASTER) or text(setup, v.MASTER)
        args: dict[str, object] = {
            "code": code,
            "name": row.name if row else "UNKNOWN",
            "master": master,
            "seconds": round(setup.duration_ns / 1e9, 1) if setup is not None else None,
            "client": engine.mooncake,
            "cause": CAUSES.get(code),
        }
        return of_engine(engine, "A03", args=args, evidence=(setup, create), causal=True)
    if failed(warmup):
        put = next((span for span in reversed(engine.all(v.STORE_PUT)) if warmup is not None and span.parent_id == warmup.span_id), None)
        code = number(put, v.FIRST_BAD_CODE)
        args = {
            "step": "the warm-up put",
            "seconds": round(warmup.duration_ns / 1e9) if warmup is not None else None,
            "code": code,
            "cause": CAUSES.get(code) if code is not None else None,
        }
        return of_engine(engine, "A07", args=args, evidence=(warmup, create), causal=True)
    if any(number(span, v.CODE) != 0 for span in engine.all(v.BUFFER_REGISTER)):
        return None
    message = text(create, v.ERROR_TEXT) or text(attach, v.ERROR_TEXT) or ""
    if "standalone_storage" in message:
        return of_engine(engine, "A06", args={"allocator": "another allocator than Mooncake's"}, evidence=(create, attach), causal=True)
    if create is None or text(create, v.BACKEND_CLASS) is None:
        return of_engine(engine, "A01", args={"backend": engine.backend_name, "error": message}, evidence=(create, attach, engine.last(v.ENGINE)), causal=True)
    return of_engine(engine, "A11", args={"backend": engine.backend_name, "reason": message or "it raised"}, evidence=(attach, create), causal=True)


RULE = Rule(
    "backend cannot serve",
    ("A01", "A03", "A06", "A07", "A11"),
    (v.BACKEND_CREATE, v.BACKEND_CONFIG, v.STORE_SETUP, v.BACKEND_WARMUP, v.BACKEND_ATTACH, v.BUFFER_REGISTER, v.STORE_PUT, v.ENGINE, v.ENGINE_START),
    of_world=judge,
)
