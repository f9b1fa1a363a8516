"""Where on its journey each lost page stopped; every place has one rule that names the code."""

from hicachectl.diagnosis.rule import Case

MISMATCH, UNSEEN, LEFT_DEVICE, GATE, FAILED, GAP, BELOW, DISAGREED, SHORT, UNPUBLISHED, LOAD_BACK, BEYOND = (
    "mismatch",
    "unseen",
    "left_device",
    "gate",
    "failed",
    "gap",
    "below",
    "disagreed",
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
    if start < journey.matched:
        return LOAD_BACK
    if journey.lookup is None:
        return GATE if journey.gate_reason else UNSEEN
    asked_end = journey.matched + journey.asked_pages * size
    if start >= asked_end:
        return BEYOND
    return _after_lookup(case, start - journey.matched)


def _after_lookup(case: Case, offset: int) -> str:
    journey = case.journey
    hit = journey.hit
    if hit is None or (journey.lookup is not None and journey.lookup.error) or (journey.lookup_code is not None and offset >= hit):
        return FAILED
    if offset >= hit:
        return GAP
    if not journey.accepted:
        return BELOW
    if offset >= journey.agreed:
        return DISAGREED
    if offset >= (journey.arrived or 0):
        return SHORT
    return UNPUBLISHED if journey.publish is None and journey.load_ask is None else LOAD_BACK
