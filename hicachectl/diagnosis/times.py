"""Where the time of a request went, in milliseconds."""

from hicachectl.model.journey import Journey
from hicachectl.store import Span


def times(journey: Journey) -> dict[str, float]:
    """lookup, transfer, notice (transfer end until the scheduler saw it), admission (until the first prefill), load_back; 0 where not entered."""
    transfer, finish, prefill = journey.transfer, journey.finish, journey.attempt.first_prefill
    seen = finish or transfer or journey.lookup or journey.gate
    begun, done = journey.copy()
    return {
        "lookup": _ms(journey.lookup, journey.lookup),
        "transfer": _ms(transfer, transfer),
        "notice": _between(transfer, finish),
        "admission": _between(seen, prefill),
        "load_back": round(max(0, (done or begun).end_ns - begun.start_ns) / 1e6, 3) if begun is not None else 0.0,
    }


def _ms(first: Span | None, last: Span | None) -> float:
    return round(max(0, last.end_ns - first.start_ns) / 1e6, 3) if first is not None and last is not None else 0.0


def _between(first: Span | None, last: Span | None) -> float:
    return round(max(0, last.start_ns - first.end_ns) / 1e6, 3) if first is not None and last is not None else 0.0
