"""What a bad answer means in the situation that it came in: rows of data, tried in order before the plain table of codes."""

from collections.abc import Callable
from dataclasses import dataclass

from hicachectl.mooncake.probe.rows import Row


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a step goes wrong. None: the admin port did not tell."""

    row: Row
    code: int | None
    """None: no answer came within the time-out."""
    timeout: float
    release: str
    log: str
    service_ready: bool | None = None
    capacity: int | None = None
    used: int | None = None
    segments: tuple[str, ...] = ()
    is_admin_port: bool = False
    """What was taken for the RPC port answers as a master's admin port."""
    endpoint: str = ""
    """Where the object's copy lies, by the master's HTTP side, asked of an own key alone."""


@dataclass(frozen=True, slots=True)
class Story:
    """A reading of a bad answer: when it holds, what it means, and the next step."""

    holds: Callable[[Facts], bool]
    meaning: Callable[[Facts], str]
    next: Callable[[Facts], str]


OTHER_RELEASE_SIGN = "invalid rpc arg"
"""What the client's log says where the master does not understand a request's form (mooncake-store/src/master_client.cpp)."""
_READS = frozenset({"get", "get_into", "batch_get_into", "batch_get_into_multi_buffers", "get_tensor", "bare"})


def _other_release(facts: Facts) -> bool:
    return facts.code == -900 and OTHER_RELEASE_SIGN in facts.log


def _waits_for_owner(facts: Facts) -> bool:
    return (
        facts.code is None
        and facts.row.call not in {"setup", "is_exist", "batch_is_exist", "remove"}
        and facts.service_ready is not False
    )


def _owners(facts: Facts) -> str:
    if facts.endpoint:
        return f"the owner at {facts.endpoint}"
    return f"one of {', '.join(facts.segments[:8])}" if facts.segments else "the owner of the segment"


def _in_setup(facts: Facts, sign: str = "") -> bool:
    return facts.row.call == "setup" and sign in facts.log


STORIES: tuple[Story, ...] = (
    Story(
        lambda facts: facts.is_admin_port,
        lambda _: "This is the master's admin port (HTTP), where the client needs the RPC port.",
        lambda _: "Give the port of --rpc_port (50051 by default) as the master's address.",
    ),
    Story(
        lambda facts: _in_setup(facts, "unsupported_protocol"),
        lambda _: "The client library does not know this protocol.",
        lambda _: (
            "Set the protocol (MOONCAKE_PROTOCOL, --protocol) to tcp or rdma, or to what this wheel was built for."
        ),
    ),
    Story(
        lambda facts: _in_setup(facts, "RPC call failed: End of file"),
        lambda _: (
            "Something accepts connections at the address, but it is no Mooncake master: it ends them without an answer."
        ),
        lambda _: "Is it the RPC port of a master (50051 by default), and no proxy in between?",
    ),
    Story(
        lambda facts: facts.code == -1 and _in_setup(facts),
        lambda _: "INTERNAL_ERROR: the client could not be set up, although the master can be reached.",
        lambda _: (
            "The log lines name the reason; most often an RDMA device that does not exist (--device), a metadata server that is down, or a local_hostname without address."
        ),
    ),
    Story(
        _other_release,
        lambda facts: (
            f"RPC_FAIL: the master is up, but of another release than this client ({facts.release or 'release unknown'}): it does not understand the requests."
        ),
        lambda facts: (
            f"Run master and clients from the same release of the wheel: the master must be {facts.release or 'the release of this client'}, or this client the master's (a master cannot be asked for its release)."
        ),
    ),
    Story(
        lambda facts: facts.code == -900 and facts.service_ready is True,
        lambda _: "RPC_FAIL: the RPC side of the master did not answer, while its admin port says that it serves.",
        lambda facts: (
            f"Is the address the RPC port of that same master? Is the master of this client's release ({facts.release or 'unknown'})? A restarted master answers again after about a second."
        ),
    ),
    Story(
        lambda facts: facts.code == -900,
        lambda _: (
            "RPC_FAIL: the master does not answer. Every further call of an engine now takes about 4 s and counts as 0 pages hit."
        ),
        lambda _: (
            "Start the master again at the same address: clients come back by themselves within seconds, and all keys are lost."
        ),
    ),
    Story(
        lambda facts: facts.code == -200 and facts.capacity == 0,
        lambda _: "NO_AVAILABLE_HANDLE: nobody has mounted a segment, so the store has no memory at all.",
        lambda _: (
            "Start an engine, or a store service, with a global segment size above 0; `--segment-size` lets this probe lend memory for its own run."
        ),
    ),
    Story(
        lambda facts: facts.code == -200,
        lambda facts: (
            f"NO_AVAILABLE_HANDLE: no segment has room for the object{_fullness(facts)}; what is leased or pinned cannot be evicted."
        ),
        lambda _: (
            "Wait for the leases to end (5 s up to 0.3.11, 10 s since 0.3.12) and try again; then more or larger segments, or a smaller --size."
        ),
    ),
    Story(
        lambda facts: facts.code == -800 and facts.row.call in _READS,
        lambda facts: f"TRANSFER_FAIL: the master knows the object, but its bytes do not come from {_owners(facts)}.",
        lambda _: (
            "Is that process alive and reachable from this host? The master forgets a dead owner, and its objects, after client_ttl (10 s by default)."
        ),
    ),
    Story(
        lambda facts: facts.code == -800,
        lambda facts: f"TRANSFER_FAIL: the master gave room, but the bytes do not reach {_owners(facts)}.",
        lambda _: (
            "Is that process alive and reachable from this host? A segment of a dead owner stays mounted for client_ttl (10 s by default); local_hostname of an owner must be an address of its host."
        ),
    ),
    Story(
        lambda facts: facts.code is None and facts.row.call == "setup",
        lambda facts: (
            f"No connection within {facts.timeout:g} s: something listens at the address, but does not answer as a master."
        ),
        lambda _: (
            "Is it the RPC port (not the admin port), and does the master run (a stopped process accepts connections, too)?"
        ),
    ),
    Story(
        _waits_for_owner,
        lambda facts: (
            f"No answer within {facts.timeout:g} s: the master answers, but {_owners(facts)} does not move bytes. An engine waits 60 s here."
        ),
        lambda _: (
            "Is that process frozen, swapping, or behind a filter? Compare /get_all_segments of the master with the processes that run; larger objects may need a larger --timeout."
        ),
    ),
    Story(
        lambda facts: facts.code is None,
        lambda facts: f"No answer within {facts.timeout:g} s: the master does not answer.",
        lambda _: "Is the master's process stopped or overloaded? Its /health on the admin port tells.",
    ),
)


def told(facts: Facts) -> tuple[str, str]:
    """(meaning, next step) of the first story that holds; empty texts where the plain table of codes says it all."""
    story = next((story for story in STORIES if story.holds(facts)), None)
    return (story.meaning(facts), story.next(facts)) if story is not None else ("", "")


def _fullness(facts: Facts) -> str:
    if facts.capacity is None or facts.used is None:
        return ""
    return f" ({facts.used / facts.capacity:.0%} of {facts.capacity} bytes in use)"
