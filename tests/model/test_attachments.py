"""Which backend a request had: one may be attached, refused and detached while the engine serves."""

from pathlib import Path

from stories import Story

from tracers import vocabulary as v


def test_each_request_has_the_backend_of_its_time(tmp_path: Path) -> None:
    """Served, detached, refused by name, and attached anew: `yes`, `not_asked`, `no`, `yes`; the engine itself is judged by what it had last."""
    story = Story()
    engine = story.engine().request("attached", 8)
    engine.span(v.BACKEND_DETACH, attributes={v.OUTCOME: "ok"})
    engine.request("detached", 8, prompt="attached", gate="R01")
    engine.span(v.BACKEND_CREATE, error=True, attributes={v.OUTCOME: "error", v.BACKEND: "moonkake", v.ERROR_TEXT: "unknown"})
    engine.request("refused", 8, prompt="attached", gate="R01")
    story._backend(engine, {v.TP_RANK: 0, v.TP_SIZE: 1, v.PP_RANK: 0, v.PP_SIZE: 1}, None, {"register": {v.BYTES: 1 << 20}})
    engine.request("anew", 8, prompt="attached", hit=8)
    found = story.judged(tmp_path)
    states = {each.journey.attempt.rid: each.ladder["backend_created"].state for each in found.requests}
    assert states == {"attached": "yes", "detached": "not_asked", "refused": "no", "anew": "yes"}
    (one,) = found.world.engines.values()
    assert one.backend_state()[0] == "yes"
    assert one.registered_bytes == 1 << 20


def test_a_request_before_the_attach_had_no_backend(tmp_path: Path) -> None:
    """The engine started without one: `not_asked` for what came before, `yes` for what came after."""
    story = Story()
    engine = story.engine(backend=False)
    engine.request("before", 8, gate="R01")
    story._backend(engine, {v.TP_RANK: 0, v.TP_SIZE: 1, v.PP_RANK: 0, v.PP_SIZE: 1}, None, {})
    engine.request("after", 8)
    found = story.judged(tmp_path)
    assert {each.journey.attempt.rid: each.ladder["backend_created"].state for each in found.requests} == {"before": "not_asked", "after": "yes"}


def test_a_detach_at_the_end_is_no_fault(tmp_path: Path) -> None:
    """An engine that lets go of its backend when it ends has served with it."""
    story = Story()
    engine = story.engine().request("served", 8)
    engine.span(v.BACKEND_DETACH, attributes={v.OUTCOME: "ok"})
    found = story.judged(tmp_path)
    assert found.requests[0].ladder["backend_created"].state == "yes"
    assert next(iter(found.world.engines.values())).backend_state()[0] == "yes"
