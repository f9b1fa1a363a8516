"""Whether an engine's storage backend exists and can serve, now or at a time: it may be attached and detached while the engine serves."""

from typing import TYPE_CHECKING

from hicachectl.model.take import failed, flag, number, text
from hicachectl.store import Span
from tracers import vocabulary as v

if TYPE_CHECKING:
    from hicachectl.model.engine import Engine

STATES = YES, PARTIAL, NO, NOT_ASKED, UNKNOWN = "yes", "partial", "no", "not_asked", "unknown"
"""Values of a rung."""
STORING_TREES = ("HiRadixCache", "UnifiedRadixCache")
"""Prefix trees that can have a storage backend."""
CHANGES = (v.BACKEND_CREATE, v.BACKEND_ATTACH, v.BACKEND_DETACH)
"""Spans from which on another answer may hold."""


def state(engine: "Engine", at_ns: int | None) -> tuple[str, list[str]]:
    """The rung `backend_created` on this rank, and the spans that prove it.

    At a time: of the backend that was attached last before it, and not_asked where it was detached again. Without a time: of the last
    backend of the process, whose detach at its end is no fault.
    """
    create, setup, warmup, attach = (_begun(engine, name, at_ns) for name in (v.BACKEND_CREATE, v.STORE_SETUP, v.BACKEND_WARMUP, v.BACKEND_ATTACH))
    detached = _begun(engine, v.BACKEND_DETACH, at_ns) if at_ns is not None else None
    if detached is not None and not failed(detached) and (create is None or create.start_ns <= detached.start_ns):
        return NOT_ASKED, [detached.span_id]
    start = engine.first(v.ENGINE_START)
    if engine.backend_name is None or (create is None and _begun(engine, v.BACKEND_CREATE, None) is not None):
        return (NOT_ASKED, [start.span_id]) if start is not None else (UNKNOWN, [])
    steps = (create, setup, warmup, attach)
    accepted = registers(engine, create, at_ns)
    evidence = [step.span_id for step in (*steps, *accepted) if step is not None]
    broken = any(failed(step) for step in steps) or number(setup, v.CODE) not in (None, 0) or any(number(span, v.CODE) != 0 for span in accepted)
    if broken or failed(engine.last(v.ENGINE)):
        return NO, evidence
    if create is None and _begun(engine, v.ENGINE, None) is not None and "backend.create" not in engine.blind and engine.whole:
        # Without an import of the factory nothing is proved, unless the tree is one that has no storage.
        unseen = "backend.create" in engine.waiting and text(engine.last(v.ENGINE), v.TREE) in STORING_TREES
        return (UNKNOWN if unseen else NO), evidence
    if None in steps or not accepted:
        return UNKNOWN, evidence
    return YES, evidence


def registers(engine: "Engine", create: Span | None, at_ns: int | None = None) -> list[Span]:
    """Registrations with the client that CREATE made: a backend that is attached anew has another."""
    found = [span for span in engine.all(v.BUFFER_REGISTER) if create is None or span.start_ns >= create.start_ns]
    return [span for span in found if at_ns is None or span.start_ns <= at_ns]


def _begun(engine: "Engine", name: str, at_ns: int | None) -> Span | None:
    """The newest call of this name that had begun at a time: not what was read when tracers were switched on, which proves no deed."""
    begun = (span for span in reversed(engine.all(name)) if at_ns is None or span.start_ns <= at_ns)
    return next((span for span in begun if not flag(span, v.IN_FORCE)), None)
