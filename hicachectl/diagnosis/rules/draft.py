"""The draft model's KV: not stored at all (A17), or its write raised and only the debug log says so (W15)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_engine, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.take import flag, strings, text
from hicachectl.model.world import World
from tracers import vocabulary as v

DRAFT = "draft"


def not_stored(world: World) -> Iterator[Finding]:
    """A draft model, storage, and no way from one to the other (0.5.14 `managers/cache_controller.py`, _maybe_register_draft_with_storage)."""
    for engine in world.engines.values():
        built, create = engine.last(v.ENGINE), engine.last(v.BACKEND_CREATE)
        if built is None or built.attributes.get(v.DRAFT_STORED) is not False:
            continue
        split = flag(create, v.LAYOUT_SPLIT)
        reason = "its heads are split (tp_lcm_size)" if split else f"backend {engine.backend_name} takes no draft pool"
        yield of_engine(engine, "A17", args={"reason": reason}, evidence=(built, create))


def not_written(case: Case) -> Iterator[Finding]:
    """A call for the draft pool alone that raised inside a write that went on."""
    for rank in case.journey.ranks:
        for operation in rank.all(v.WRITE_STORE):
            for call in rank.inside(operation, v.WRITE_POOLS):
                named = {each.partition("=")[0] for each in strings(call, v.POOL_PAGES)}
                if call.error and not operation.error and named == {DRAFT}:
                    args: dict[str, object] = {"exception": text(call, v.ERROR), "message": text(call, v.ERROR_TEXT), "rank": rank.engine.rank}
                    yield of_request(case.journey, "W15", args=args, evidence=(call, operation))
                    return


RULE = Rule("draft model", ("A17", "W15"), (v.ENGINE, v.BACKEND_CREATE, v.WRITE_STORE, v.WRITE_POOLS), of_case=not_written, needs=(v.WRITE_STORE,), of_world=not_stored)
