"""Where on its journey each lost page stopped; every place has one rule that names the code."""

from hicachectl.diagnosis.rule import Case
from hicachectl.model.attempt import reason
from hicachectl.model.journey import Journey

MISMATCH, UNSEEN, LEFT_DEVICE, GATE, REVOKED, FAILED, GAP, BELOW, DISAGREED, NO_ROOM, SHORT, UNPUBLISHED, LOAD_BACK, BEYOND = (
    "mismatch",
    "unseen",
    "left_device",
    "gate",
    "revoked",
    "failed",
    "gap",
    "below",
    "disagreed",
    "no_room",
    "short",
    "unpublished",
    "load_back",
    "beyond",
)


def place(case: Case, page: int) -> str:
    """The place at which PAGE of the prompt stopped, from the first rung that it did not pass."""
    journey, size = case.journey, case.journey.page
    start = page * size
    if page in case.account.mismatched:
        return MISMATCH
    if start < (journey.matched_device or 0):
        return LEFT_DEVICE
    if start < max(journey.matched, journey.looked_from):
        return LOAD_BACK
    if journey.lookup is None:
        return _without_lookup(case)
    asked_end = journey.looked_from + journey.asked_pages * size
    if start >= asked_end:
        return BEYOND
    return _after_lookup(case, start - journey.looked_from)


def _without_lookup(case: Case) -> str:
    journey = case.journey
    if journey.gate_reason:
        return GATE
    # A lookup that had no thread any more is given up by the policy too: the thread is the cause.
    return UNSEEN if journey.revoke is None or journey.halted is not None else REVOKED


def _after_lookup(case: Case, offset: int) -> str:
    journey = case.journey
    hit = journey.hit
    engine = journey.attempt.engine
    own = journey.hits.get(engine.rank)
    if hit is None or (journey.lookup is not None and journey.lookup.error) or (offset >= hit and _failed_on(journey, hit) is not None):
        return FAILED
    if offset >= hit:
        return DISAGREED if own is not None and offset < own else GAP
    if not journey.accepted:
        return BELOW
    if offset >= journey.handed:
        return NO_ROOM if len(journey.hits) >= engine.tp_size * engine.pp_size else DISAGREED
    if offset >= (journey.arrived or 0):
        return SHORT
    return UNPUBLISHED if _unpublished(case) else LOAD_BACK


def _failed_on(journey: Journey, hit: int) -> Journey | None:
    """The rank whose lookup failed where the agreed hit ends."""
    return next((each for each in journey.on_ranks if each.lookup_code is not None and journey.hits.get(each.attempt.engine.rank) == hit), None)


def _unpublished(case: Case) -> bool:
    """Nothing was taken into the tree: not seen, thrown away, or let go."""
    publish = case.journey.publish
    return reason(publish) is not None or (publish is None and case.journey.load_ask is None)
