"""The master's answer: is it there, does it serve, is it of this client's release, does it have memory."""

from collections.abc import Iterator
from typing import Any

from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.checks.visit import Visit


def look(scene: Scene) -> Iterator[Result]:
    """No connection, a standby, and another release are errors; a store without memory is a warning."""
    seen = scene.visit
    if seen is None:
        return
    if seen.problem:
        yield error(
            f"No connection to the store: {seen.problem}",
            "HC-A03",
            "hicachectl probe --master HOST:PORT tries another address.",
            address=seen.address,
            log=list(seen.trouble),
        )
        return
    yield from _client(scene, seen)
    yield from _admin(scene, seen)


def _client(scene: Scene, seen: Visit) -> Iterator[Result]:
    """What the native client got: a set-up that lends nothing, and one existence check of a key that nobody has."""
    release = scene.inside.mooncake or "unknown"
    facts: dict[str, Any] = {
        "setup": seen.setup,
        "call": seen.call,
        "client_release": release,
        "transport": seen.transport,
    }
    if seen.setup is None:
        yield info("The client library was not tried against the store.", address=seen.address)
    elif seen.other_release or (seen.setup == 0 and seen.call == -900):
        yield error(
            f"The master is of another release than this client ({release}): setup returns {seen.setup}, and every call {seen.call if seen.call is not None else seen.setup} (RPC_FAIL), because it does not understand the requests.",
            "HC-A03",
            f"Run master and engines from one release of the wheel: the master must be {release}. It cannot be asked for its release.",
            **facts,
        )
    elif seen.setup != 0:
        yield error(
            f"The client cannot be set up: code {seen.setup}.",
            "HC-A03",
            f"hicachectl code -- {seen.setup}",
            log=list(seen.trouble),
            **facts,
        )
    elif seen.call not in {0, 1}:
        yield error(
            f"The store answers {seen.call} to an existence check.",
            "HC-A03",
            f"hicachectl code -- {seen.call}",
            log=list(seen.trouble),
            **facts,
        )
    else:
        yield ok(
            f"The store at {seen.address} answers this client (release {release}, transport {seen.transport or 'unknown'}).",
            **facts,
        )


def _admin(scene: Scene, seen: Visit) -> Iterator[Result]:
    config, health, sample = scene.config, seen.health, seen.sample
    waits = config is not None and config.check_server.value is True
    if health is not None and health.service_ready is False:
        yield error(
            f"This master does not serve: it is '{health.role}', its state '{health.state}'.",
            "HC-A03",
            "Name the leader's address, or the high-availability backend's.",
            admin=seen.admin,
        )
        return
    if sample is None:
        problem = seen.admin_problem or "it was not asked"
        message = f"The master's admin port does not answer: {problem}"
        following = "Set MOONCAKE_MASTER_METRICS_PORT (master_metrics_port) to the master's --metrics_port."
        yield (
            error(f"{message} check_server would wait for it for 600 s.", "HC-A07", following)
            if waits
            else warning(message, "", following)
        )
        return
    facts: dict[str, Any] = {name: sample[name] for name in ("keys", "segments", "used_bytes", "capacity_bytes")}
    lends = config is not None and config.global_segment_size.value > 0
    if sample["segments"] == 0 and waits:
        yield error(
            "No memory is mounted in the store, and check_server waits for it for 600 s before the engine gives up.",
            "HC-A07",
            "Start an owner of memory first, or leave check_server off.",
            **facts,
        )
    elif sample["capacity_bytes"] == 0 and not lends:
        yield warning(
            "The store has no memory: nobody has mounted a segment, and this engine lends none. Every put would be refused with -200.",
            "",
            "A global_segment_size above 0 here or elsewhere.",
            **facts,
        )
    else:
        yield ok(
            f"The master serves: {sample['segments']} segment(s), {sample['keys']} key(s), {sample['used_bytes']} of {sample['capacity_bytes']} bytes used.",
            admin=seen.admin,
            **facts,
        )
