"""Pages of a request with an extra key that are published without it: R27 for that request, G08 for a plain one that meets them there."""

from collections import defaultdict
from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.engine import Engine
from hicachectl.model.journey import Journey
from hicachectl.model.take import count, flag, number
from hicachectl.model.world import World
from hicachectl.store import Span
from tracers import vocabulary as v

FIXED = (0, 5, 23)
"""From this release on a prefetch goes where the request's own key points."""


def orphaned(journey: Journey) -> Span | None:
    """The insert of pages of a request with an extra key under the root (0.5.14 `hiradix_cache.py`, prefetch_from_storage: the anchor's key counts)."""
    queued, publish = journey.attempt.first(v.REQUEST_QUEUED), journey.publish
    anchored = journey.enqueue is None or v.ANCHOR in journey.enqueue.attributes
    if not flag(queued, v.EXTRA_KEY) or anchored or not count(publish, v.TOKENS) or _fixed(journey.attempt.engine):
        return None
    return publish


def _fixed(engine: Engine) -> bool:
    parts = (engine.sglang or "").split(".")[:3]
    return not all(part.isdigit() for part in parts) or tuple(map(int, parts)) >= FIXED


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
    mine = number(journey.attempt.first(v.REQUEST_QUEUED), v.NAMESPACE)
    return f"number {mine}" if mine else "of its own"


def met(world: World) -> Iterator[Finding]:
    """Plain requests that matched such pages on the host, and nobody else had brought them there since the last reset."""
    by_engine: dict[str, list[Journey]] = defaultdict(list)
    for journey in world.journeys:
        by_engine[journey.attempt.engine.id].append(journey)
    for name, journeys in by_engine.items():
        if not any(orphaned(journey) for journey in journeys):
            continue
        resets = [span.end_ns for span in world.engines[name].all(v.RESET)]
        yield from _met(sorted(journeys, key=lambda each: each.attempt.start_ns), resets)


def _met(journeys: list[Journey], resets: list[int]) -> Iterator[Finding]:
    astray: dict[str, Journey] = {}
    plain: set[str] = set()
    since = 0
    for journey in journeys:
        start, keys, page = journey.attempt.start_ns, journey.attempt.page_keys, journey.page
        last = max((end for end in resets if end <= start), default=0)
        if last > since:
            since, astray, plain = last, {}, set()
        if orphaned(journey) is not None:
            first = journey.looked_from // page
            astray.update(dict.fromkeys(keys[first : first + count(journey.publish, v.TOKENS) // page], journey))
            continue
        if flag(journey.attempt.first(v.REQUEST_QUEUED), v.EXTRA_KEY):
            continue
        device = (journey.matched_device or 0) // page
        here = [key for key in keys[device : journey.matched // page] if key in astray and key not in plain]
        plain.update(keys)
        if here:
            owner = astray[here[0]]
            args: dict[str, object] = {"tokens": len(here) * page, "extra_key": named(owner), "fetched_for": owner.attempt.rid}
            yield of_request(journey, "G08", args=args, evidence=(journey.gate, owner.publish, journey.attempt.first_prefill))


RULE = Rule(
    "wrong namespace",
    ("R27", "G08"),
    (v.REQUEST_QUEUED, v.PREFETCH_ENQUEUE, v.PREFETCH_PUBLISH, v.PREFETCH_GATE, v.PREFETCH_LOOKUP, v.PREFETCH_TRANSFER, v.RESET, v.PREFILL),
    of_case=judge,
    of_world=met,
)
