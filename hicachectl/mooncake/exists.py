"""Which keys are in a live store, asked in the gentlest way that its release has.

What each way does to the objects: `ExistKey`, `GetAllKeys` in Mooncake's `mooncake-store/src/master_service.cpp`, and
`/batch_query_keys` in `master_admin_service.cpp` and its predecessors, at 0.3.11.post1 and 0.3.12.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from hicachectl.exits import OperatorError, UnreachableError, UsageError
from hicachectl.mooncake import client, errors, master
from hicachectl.mooncake.probe.reach import reach

LISTING_MOST = 500_000
"""Keys of a store up to which the master is asked for all of them: about 50 MB."""
QUERY_BYTES = 48 << 10
"""Of the URL of one `/batch_query_keys`, even where every byte of a key is written as three: httpx takes 64 KiB."""


class Way(str, Enum):
    """How the store is asked."""

    auto = "auto"
    query = "query"
    listing = "listing"
    client = "client"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a way of asking does to the store, and what its answer does not tell."""

    way: Way
    side_effects: tuple[str, ...]
    remark: str = ""


EFFECTS: dict[Way, Effect] = {
    Way.query: Effect(Way.query, ()),
    Way.listing: Effect(
        Way.listing,
        (),
        "the master lists an object from the start of its put on: one whose put has not ended counts as present",
    ),
    Way.client: Effect(
        Way.client,
        (
            "a lease on every object that exists: until it ends (5 s up to Mooncake 0.3.11, 10 s later, by default) the object is neither evicted nor removed without force",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the store is: its master's admin port (None: not known), and how a client of its own would connect."""

    admin: str | None
    settings: client.ClientSettings
    timeout: float = client.CALL_TIMEOUT_S
    found: str = ""
    """How the admin port was found."""


@dataclass(frozen=True, slots=True)
class Answers:
    """1, 0 or a negative code for each key asked, in order; how they were had, and what that did to the store."""

    codes: list[int]
    effect: Effect
    releases: str = ""


def exists(keys: Sequence[str], place: Place, way: Way = Way.auto) -> Answers:
    """Ask for KEYS; UnreachableError where nothing answers, or where the store answers nothing but failures."""
    if way is Way.auto:
        choice = _chosen(keys, place)
    else:
        choice = _Choice(way, None if way is Way.client else master.health(_admin(place), place.timeout).dialect)
    if choice.way is Way.query and choice.dialect is not None and not choice.dialect.batch_query_is_read_only:
        raise UsageError(
            f"the master at {place.admin} is of a release before 0.3.12, whose /batch_query_keys is not read-only: "
            "use --lookup listing or client"
        )
    try:
        codes = _ASKED[choice.way](keys, place)
    except UnreachableError as error:
        raise UnreachableError(f"{choice.trouble}; and as a client: {error}") if choice.trouble else error from None
    return Answers(codes, EFFECTS[choice.way], choice.dialect.releases if choice.dialect else "")


def listed(place: Place) -> list[str] | None:
    """Every key of the store, without a lease; None where they are too many or the admin port does not answer."""
    try:
        base = _admin(place)
        if master.metrics(base, place.timeout)["master_key_count"] > LISTING_MOST:
            return None
        return master.keys(base, place.timeout)
    except OperatorError:
        return None


@dataclass(frozen=True, slots=True)
class _Choice:
    """The way that is taken, what the master's health tells of its release, and why the admin port is of no use."""

    way: Way
    dialect: master.Dialect | None = None
    trouble: str = ""


def _chosen(keys: Sequence[str], place: Place) -> _Choice:
    """The gentlest way that can answer: read-only queries, the whole list, and only then a client, which takes leases."""
    if place.settings.tenant_id:
        return _Choice(Way.client)  # the admin port tells of the default tenant alone
    try:
        base = _admin(place)
        found = master.health(base, place.timeout)
        if found.service_ready is False:
            raise UnreachableError(f"the master at {base} does not serve: ask its /leader for the one that does")
        if found.dialect.batch_query_is_read_only and not any("," in key for key in keys):
            return _Choice(Way.query, found.dialect)
        if master.metrics(base, place.timeout)["master_key_count"] <= LISTING_MOST:
            return _Choice(Way.listing, found.dialect)
    except OperatorError as error:
        return _Choice(Way.client, trouble=str(error))
    return _Choice(Way.client, found.dialect)


def _admin(place: Place) -> str:
    if place.admin is None:
        raise UnreachableError(
            f"the admin port of {place.settings.master_server_address} is not known: give --admin http://HOST:PORT"
        )
    return place.admin


def _by_query(keys: Sequence[str], place: Place) -> list[int]:
    codes: list[int] = []
    for batch in _batches(keys):
        copies = master.batch_query_keys(_admin(place), batch, place.timeout)
        codes += [int(copies[key] is not None) for key in batch]
    return codes


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """KEYS in pieces whose URL has at most QUERY_BYTES, or one key."""
    start = size = 0
    for index, key in enumerate(keys):
        if index > start and size + len(key.encode()) > QUERY_BYTES // 3:
            yield keys[start:index]
            start, size = index, 0
        size += len(key.encode()) + 1
    if start < len(keys):
        yield keys[start:]


def _by_listing(keys: Sequence[str], place: Place) -> list[int]:
    there = set(master.keys(_admin(place), place.timeout))
    return [int(key in there) for key in keys]


def _by_client(keys: Sequence[str], place: Place) -> list[int]:
    reach(place.settings.master_server_address, place.timeout)
    with client.connected(place.settings, place.timeout) as session:
        codes = session.batch_is_exist(keys)
    if codes and all(code < 0 for code in codes):
        row = errors.store(codes[0])
        said = f"{row.name}: {row.meaning} {row.check}" if row else "a number of no known meaning"
        raise UnreachableError(
            f"the store at {place.settings.master_server_address} answers every look-up with {codes[0]}, {said}"
        )
    return codes


_ASKED: dict[Way, Callable[[Sequence[str], Place], list[int]]] = {
    Way.query: _by_query,
    Way.listing: _by_listing,
    Way.client: _by_client,
}
