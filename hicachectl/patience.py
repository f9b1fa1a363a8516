"""How long an answer over HTTP may take in all: httpx bounds the silence between two pieces alone, and a piece may be one byte."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hicachectl.exits import BadInputError

if TYPE_CHECKING:
    import httpx


@contextmanager
def at_most(seconds: float, client: "httpx.Client", endless: Callable[[], str]) -> Iterator[None]:
    """Hang up on whoever answers CLIENT after SECONDS, be it in the middle of its headers: BadInputError with the sentence of ENDLESS."""
    timer = threading.Timer(seconds, client.close)
    timer.daemon = True
    due = time.monotonic() + seconds
    timer.start()
    try:
        yield
    except Exception as error:
        # What a closed connection raises depends on what it was doing.
        if time.monotonic() >= due:
            raise BadInputError(endless()) from error
        raise
    finally:
        timer.cancel()
