"""Pages of a request with an extra key that are published without it: R27 for that request, G08 for a plain one that meets them there."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.journey import Journey
from hicachectl.model.namespaces import has_extra_key, namespace
from hicachectl.model.take import count
from hicachectl.model.world import World
from hicachectl.release import is_since
from hicachectl.store import Span
from tracers import vocabulary as v

FIXED = "0.5.23"
"""From this release on a prefetch goes where the request's own key points."""


def orphaned(journey: Journey) -> Span | None:
    """The insert of pages of a request with an extra key under the root (0.5.14 `hiradix_cache.py`, prefetch_from_storage: the anchor's key counts)."""
    if not has_extra_key(journey.attempt) or is_since(journey.attempt.engine.sglang, FIXED) is not False:
        return None
    anchored = journey.enqueue is None or v.ANCHOR in journey.enqueue.attributes
    return journey.publish if count(journey.publish, v.TOKENS) and not anchored else None


def judge(case: Case) -> Iterator[Finding]:
    """The request whose pages went astray."""
    if orphaned(case.journey) is not None:
        yield found(case.journey)


def found(journey: Journey) -> Finding:
    """What was published, and for which extra key; the key itself is not recorded."""
    publish = journey.publish
    args: dict[str, object] = {"tokens": count(publish, v.TOKENS), "extra_key": named(journey)}
    return of_request(journey, "R27", args=args, evidence=(publish, journey.attempt.first(v.REQUEST_QUEUED), journey.enqueue), causal=True)


def named(journey: Journey) -> str:
    """The extra key by its number."""
    mine = namespace(journey.attempt)
    return f"number {mine}" if mine else "of its own"


def met(world: World) -> Iterator[Finding]:
    """Plain requests that matched such pages on the host, and nobody else had brought them there since the last reset."""
    engines = dict.fromkeys(journey.attempt.engine.id for journey in world.salted if orphaned(journey) is not None)
    for name in engines:
        journeys = [journey for journey in world.journeys if journey.attempt.engine.id == name]
        yield from _met(journeys, [span.end_ns for span in world.engines[name].all(v.RESET)])


def _met(journeys: list[Journey], resets: list[int]) -> Iterator[Finding]:
    astray: dict[str, Journey] = {}
    plain: set[str] = set()
    since = 0
    for journey in journeys:
        last = max((end for end in resets if end <= journey.attempt.start_ns), default=0)
        if last > since:
            since, astray, plain = last, {}, set()
        keys, page = journey.attempt.page_keys, journey.page
        if orphaned(journey) is not None:
            first = journey.looked_from // page
            astray.update(dict.fromkeys(keys[first : first + count(journey.publish, v.TOKENS) // page], journey))
        elif not has_extra_key(journey.attempt):
            device = (journey.matched_device or 0) // page
            here = [key for key in keys[device : journey.matched // page] if key in astray and key not in plain]
            plain.update(keys)
            if here:
                owner = astray[here[0]]
                args: dict[str, object] = {"tokens": len(here) * page, "extra_key": named(owner), "fetched_for": owner.attempt.rid}
                yield of_request(journey, "G08", args=args, evidence=(journey.gate, owner.publish, journey.attempt.first_prefill))
        journey.forget()


RULE = Rule(
    "wrong namespace",
    ("R27", "G08"),
    (v.REQUEST_QUEUED, v.PREFETCH_ENQUEUE, v.PREFETCH_PUBLISH, v.PREFETCH_GATE, v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.RESET, v.PREFILL),
    of_case=judge, needs=(v.PREFETCH_PUBLISH,),
    of_world=met,
)
