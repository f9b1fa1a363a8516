"""Is anybody there: a dead address is told at once, where the client's own set-up would take 90 s for it."""

import socket
from urllib.parse import urlsplit

from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.mooncake import master


def reach(address: str, timeout: float) -> None:
    """Open and close a connection to the master, so that a dead address is told at once: the client's own set-up takes 90 s for it.

    An address with a scheme names a high-availability backend, which only the client can resolve.
    """
    if "://" in address:
        return
    host, port = master.host_of(address), _port(address)
    try:
        socket.create_connection((host.strip("[]"), port), timeout=timeout).close()
    except socket.gaierror as error:
        raise UnreachableError(f"the master's host '{host}' has no address ({error.strerror}).") from error
    except TimeoutError as error:
        raise UnreachableError(f"nobody answers at the master's address {address} within {timeout:g} s.") from error
    except UnicodeError as error:
        raise BadInputError(f"'{host}' is the name of no host: a part of it is too long, or empty") from error
    except OSError as error:
        raise UnreachableError(
            f"nobody listens at the master's address {address} ({error.strerror or error})."
        ) from error


def _port(address: str) -> int:
    try:
        port = urlsplit(f"//{address}").port
    except ValueError:
        port = None
    if port is None:
        raise BadInputError(f"'{address}' is not a master's address: expected HOST:PORT, as in 127.0.0.1:50051")
    return port
