"""Standalone storage: the engine talks to a client process of this host instead of being a client itself."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, info, ok
from hicachectl.checks.scene import Scene
from hicachectl.exits import OperatorError
from hicachectl.mooncake.probe.reach import reach

TIMEOUT_S = 3.0


def look(scene: Scene) -> Iterator[Result]:
    """The client process must listen, and the host pool must come from Mooncake's own allocator."""
    config = scene.config
    if config is None:
        return
    address = config.client_server_address.value
    if not config.standalone_storage.value:
        if address:
            yield info(
                f"client_server_address {address} is given, but standalone_storage is off: it is not used.",
                origin=config.client_server_address.origin,
            )
        return
    if not address:
        yield error(
            "standalone_storage is on, and no client_server_address says where the client process is.",
            "HC-A06",
            "MOONCAKE_CLIENT=HOST:PORT",
            origin=config.standalone_storage.origin,
        )
        return
    try:
        reach(address, TIMEOUT_S)
    except OperatorError as failure:
        said = str(failure).replace("the master's ", "the client process's ")
        yield error(f"standalone_storage is on: {said}", "HC-A06", "Start mooncake_client on this host first.")
    else:
        yield ok(f"The client process answers at {address}.")
