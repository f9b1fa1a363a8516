"""Pages that were written are not found: evicted (E06), forgotten by the store (E101), or cut off by a missing page (R13)."""

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.pages import Write
from tracers import vocabulary as v


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """What was missing first, what lies behind it, and whether the master counted evictions meanwhile."""
    journey, world = case.journey, case.world
    engine, lookup, writes = journey.attempt.engine, journey.lookup, written_before(case, pages)
    first = (journey.looked_from + (journey.hit or 0)) // journey.page
    keys = journey.attempt.page_keys
    missing = keys[first] if first < len(keys) else None
    until = lookup.end_ns if lookup is not None else journey.attempt.start_ns
    evicted = world.counted(v.SAMPLE_EVICTED, engine, min((write.time_ns for write in writes), default=journey.attempt.start_ns), until)
    behind, partly = _behind(case)
    evidence = (lookup, journey.pools_found, *(call.span for call in journey.lookup_calls), *dict.fromkeys(write.span_id for write in writes[:8]))
    objects = _gone(case, pages) or len(pages) * max(1, len(journey.attempt.key_suffixes))
    certain, pool = world.certain(engine), journey.short_pool
    args: dict[str, object] = {"objects": objects, "evictions": evicted, "page": first, "key": _key(case, missing), "found": (journey.hit or 0) // journey.page}
    if evicted and writes and pool is None:
        return of_request(journey, "E06", args=args, evidence=evidence, certain=certain and evicted >= objects)
    if writes and not behind and not partly and pool is None:
        sampled = evicted is not None
        code = "E101" if sampled or not journey.hit else "E06"
        return of_request(journey, code, args=args, evidence=evidence, certain=certain and sampled)
    args = {"page": first, "key": _key(case, missing), "unreachable": max(0, len(pages) - 1), "tokens": len(pages) * journey.page, "pool": pool or "kv"}
    return of_request(journey, "R13", args=args, evidence=evidence, certain=certain)


def written_before(case: Case, pages: tuple[int, ...]) -> list[Write]:
    """Writes of these pages that are known to have ended before the request came."""
    attempt = case.journey.attempt
    keys = attempt.page_keys
    return [write for page in pages if page < len(keys) for write in case.world.pages.before(case.world.pages.of(attempt.key_prefix, keys[page]), attempt.start_ns)]


def _gone(case: Case, pages: tuple[int, ...]) -> int:
    """Objects of these pages that the lookup did not find; what it misses of other pages was never written."""
    keys = case.journey.attempt.page_keys
    written = {keys[page] for page in pages if page < len(keys)}
    return sum(len(page.bad) for call in case.journey.lookup_calls for page in call.pages if page.page_key in written)


def _behind(case: Case) -> tuple[int, bool]:
    """Pages present behind the first missing one, and whether a part of that one is present."""
    behind, partly, seen = 0, False, False
    for call in case.journey.lookup_calls:
        for page in call.pages:
            if seen:
                behind += page.whole
            elif not page.whole:
                seen, partly = True, bool(page.good)
    return behind, partly


def _key(case: Case, page_key: str | None) -> str | None:
    """Object key of the first missing object."""
    calls = [call for call in case.journey.lookup_calls if call.first_bad_key]
    if calls:
        return calls[-1].first_bad_key
    suffixes = case.journey.attempt.key_suffixes
    return f"{case.journey.attempt.key_prefix}{page_key}{suffixes[0] if suffixes else ''}" if page_key else None


RULE = LossRule("written, not found", ("E06", "E101", "R13"), (v.PREFETCH_LOOKUP, v.PREFETCH_POOLS, v.STORE_EXIST, v.STORE_PUT, v.STORE_SAMPLE), judge)

