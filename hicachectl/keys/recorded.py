"""A recorded request: its page keys, and the shape of the engine that it was sent to."""

from dataclasses import dataclass

from hicachectl.exits import BadInputError, UsageError, one_line
from hicachectl.keys.decode import decode
from hicachectl.keys.objects import Layout, Slot
from hicachectl.keys.pools import Kind
from hicachectl.keys.presence import DEFAULT_THRESHOLD, POLICIES
from hicachectl.keys.scheme import OLDEST, scheme_of
from hicachectl.keys.shape import Shape
from hicachectl.model.engine import Engine
from hicachectl.model.journey import Journey
from hicachectl.model.world import World
from tracers import vocabulary as v


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recording says of one request: page keys, prompt length, and how its engine names objects and decides."""

    rid: str
    shape: Shape
    layout: Layout
    page_keys: list[str]
    prompt_tokens: int
    threshold: int
    policy: str
    remarks: tuple[str, ...]


def recorded(world: World, rid: str) -> Recorded:
    """The request whose id is RID, or begins with it; UsageError where none or several do, BadInputError where its keys were not recorded."""
    journey = _found(world, rid)
    attempt = journey.attempt
    engine = attempt.engine
    if not attempt.page_keys or attempt.prompt_tokens is None:
        raise BadInputError(
            f"the recording has no page keys of request {one_line(attempt.rid)}: its prompt has no full page, or they were left out"
        )
    ranks = [each.engine for each in journey.ranks]
    laid_out = _layout(ranks)
    if not laid_out.slots:
        raise BadInputError(
            f"the recording does not say how the engine of request {one_line(attempt.rid)} names its objects"
        )
    policy = engine.text(v.STOP_POLICY) or ""
    return Recorded(
        rid=attempt.rid,
        shape=_shape(engine, laid_out),
        layout=laid_out,
        page_keys=attempt.page_keys,
        prompt_tokens=attempt.prompt_tokens,
        threshold=engine.number(v.THRESHOLD) or DEFAULT_THRESHOLD,
        policy=policy if policy in POLICIES else "timeout",
        remarks=_remarks(engine, ranks),
    )


def _found(world: World, rid: str) -> Journey:
    exact = [each for each in world.journeys if each.attempt.rid == rid]
    fitting = exact or [each for each in world.journeys if each.attempt.rid.startswith(rid)]
    names = dict.fromkeys(each.attempt.rid for each in fitting)
    where = ", ".join(world.recording.paths)
    if not fitting:
        raise UsageError(f"no request id of {where} is or begins with {one_line(rid)}: see `hicachectl show`")
    if len(names) > 1:
        raise UsageError(f"{len(names)} request ids of {where} begin with {one_line(rid)}: give more of it")
    return fitting[-1]


def _layout(ranks: list[Engine]) -> Layout:
    """The objects of a page over all recorded ranks, by the suffixes that each rank's backend had."""
    slots: dict[str, Slot] = {}
    asked: list[list[str]] = []
    for rank in ranks:
        for suffix in rank.key_suffixes:
            readings = decode("0" * 64 + suffix).readings
            shared = bool(readings) and not suffix.endswith("_v") and len(rank.key_suffixes) == 1
            part = next((each.part for each in readings if bool(each.heads) != shared), suffix)
            slots.setdefault(suffix, Slot(suffix, rank.tp_rank, rank.pp_rank, part, shared=shared))
        asked.append(list(rank.key_suffixes))
    places = {suffix: index for index, suffix in enumerate(slots)}
    prefix = ranks[0].key_prefix if ranks else ""
    prefix = prefix if not prefix or prefix.endswith("_") else f"{prefix}_"
    return Layout(prefix, tuple(slots.values()), tuple(tuple(places[suffix] for suffix in own) for own in asked if own))


def _shape(engine: Engine, laid_out: Layout) -> Shape:
    """The shape as far as keys and the engine's decision need it; the prefix and the suffixes stand in the layout."""
    return Shape(
        sglang=_release(engine.sglang),
        page_size=engine.page_size,
        kind=Kind.mla if all(slot.shared for slot in laid_out.slots) else Kind.mha,
        tp_size=engine.tp_size,
        pp_size=engine.number(v.PP_SIZE) or 1,
        bigram=engine.setting(v.BIGRAM) is True,
    )


def _release(recorded_release: str | None) -> str:
    try:
        scheme_of(recorded_release or OLDEST)
    except UsageError:
        return OLDEST
    return recorded_release or OLDEST


def _remarks(engine: Engine, ranks: list[Engine]) -> tuple[str, ...]:
    expected = engine.tp_size * (engine.number(v.PP_SIZE) or 1)
    found = ["page keys are as recorded; pools beside K and V are not in the map"]
    if len(ranks) < expected:
        found.append(f"{len(ranks)} of {expected} ranks are in the recording: the others' objects are not in the map")
    return tuple(found)
