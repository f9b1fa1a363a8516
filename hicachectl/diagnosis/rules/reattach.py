"""An attach at run time that was refused (A11), or that changed less than was asked (A12)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine
from hicachectl.diagnosis.rule import Rule
from hicachectl.model.attempt import reason
from hicachectl.model.take import strings, text
from hicachectl.model.world import World
from tracers import vocabulary as v


def judge(world: World) -> Iterator[Finding]:
    """Each call that a running engine answered with a refusal, or with success although the settings were dropped."""
    for engine in world.engines.values():
        for span in engine.all(v.BACKEND_ATTACH_ASKED):
            code = reason(span)
            if code == "A12":
                args: dict[str, object] = {"backend": text(span, v.BACKEND), "ignored": ", ".join(strings(span, v.NAMES)) or "the new extra config", "answer": text(span, v.MESSAGE)}
                yield of_engine(engine, "A12", args=args, evidence=(span,))
            elif code == "A11":
                args = {"backend": text(span, v.BACKEND), "reason": text(span, v.MESSAGE) or text(span, v.ERROR_TEXT) or "no reason given"}
                yield of_engine(engine, "A11", args=args, evidence=(span,), serving=engine.backend_state()[0] == "yes")


RULE = Rule("attach at run time", ("A11", "A12"), (v.BACKEND_ATTACH_ASKED,), of_world=judge)
