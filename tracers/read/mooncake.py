"""Readers at the Mooncake binding: registered memory, and the code of each object of a batch."""

import resource
import threading
import time
from typing import Any

from tracers.carry import here
from tracers.detail import Objects, Range
from tracers.point import SKIP, Args, Kwargs
from tracers.read.take import argument, outcome, whole

_ranges: dict[int, tuple[Range, ...]] = {0: ()}
"""The ranges that this process has registered, replaced as a whole, so that a batch in flight keeps its own; empty where nobody knows them."""


_running: dict[int, tuple[int, str | None, str]] = {}
"""Thread -> when its get began (ms), for which request, and the first object that it asked for."""
LONG_MS = 1000


def waiting() -> list[str]:
    """The gets of this process that have not returned for a second, for the ledger."""
    now = time.time_ns() // 1_000_000
    return [f"{began} {rid or '-'} {key}" for began, rid, key in sorted(_running.copy().values(), key=str) if now - began > LONG_MS]


def forget() -> None:
    """In a forked child, whose parent's threads are not there: nothing is under way."""
    _running.clear()


def begin(*, late: bool) -> None:
    """A recording begins. LATE, the ranges of this process are not known, and stay so: they were registered before, unseen."""
    _running.clear()
    _ranges.clear()
    if not late:
        _ranges[0] = ()


def get_begins(args: Args, kwargs: Kwargs) -> None:
    """Note a batch of gets before it is called: one that hangs leaves no span."""
    keys = argument(args, kwargs, 1, "keys")
    first = keys[0] if isinstance(keys, (list, tuple)) and keys and isinstance(keys[0], str) else "-"
    frame = here.frame
    _running[threading.get_ident()] = (time.time_ns() // 1_000_000, frame.rid if frame is not None else None, first)


def ranges() -> tuple[Range, ...] | None:
    """Registered ranges as (first byte, byte after the last); None where they are not known."""
    return _ranges.get(0)


def registered(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BUFFER_REGISTER: address, size and code of `register_buffer(ptr, size)`; the locked-memory limit where it was refused."""
    del state
    address, size = whole(argument(args, kwargs, 1, "ptr")), whole(argument(args, kwargs, 2, "size"))
    if error is None and result == 0 and address is not None and size is not None and 0 in _ranges:
        _ranges[0] = (*_ranges[0], (address, address + size))
    return (outcome(error, declined=result != 0), whole(result), address, size, resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] if result != 0 else None)


def batch_registered(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """PD_REGISTER (SGLang `mooncake_transfer_engine.py`, batch_register): buffers, bytes and code; the locked-memory limit where it failed."""
    del state
    lengths = argument(args, kwargs, 2, "lengths") or ()
    failed = result != 0
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] if failed else None
    return (outcome(error, declined=failed), whole(result), len(lengths), sum(map(int, lengths)), limit, None)


def unregistered(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BUFFER_UNREGISTER: address and code of `unregister_buffer(ptr)`."""
    del state
    address = whole(argument(args, kwargs, 1, "ptr"))
    if error is None and result == 0 and 0 in _ranges:
        _ranges[0] = tuple(each for each in _ranges[0] if each[0] != address)
    return (outcome(error, declined=result != 0), whole(result), address)


def _batch(args: Args, kwargs: Kwargs, result: Any, error: BaseException | None, success: str) -> Any:
    keys = argument(args, kwargs, 1, "keys")
    if not isinstance(keys, (list, tuple)) or error is not None or not isinstance(result, (list, tuple)):
        return (outcome(error), len(keys) if isinstance(keys, (list, tuple)) else None, None, None)
    pointers, sizes = argument(args, kwargs, 2, "buffer_ptrs", ()), argument(args, kwargs, 3, "sizes", ())
    if success == "exist":
        pointers, sizes = (), ()
    return ("ok", len(keys), Objects(keys, result, success, pointers, sizes, ranges()), None)


def batch_existed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_EXIST of `batch_is_exist(keys)`: 1, 0 or a negative code each."""
    del state
    return _batch(args, kwargs, result, error, "exist")


def batch_put(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_PUT of `batch_put_from(keys, ptrs, sizes)`: 0 or a negative code each."""
    del state
    return _batch(args, kwargs, result, error, "put")


def batch_got(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_GET of `batch_get_into(keys, ptrs, sizes)`: bytes or a negative code each."""
    del state
    _running.pop(threading.get_ident(), None)
    return _batch(args, kwargs, result, error, "get")


def _single(args: Args, kwargs: Kwargs, code: int | None, error: BaseException | None, success: str) -> Any:
    key = argument(args, kwargs, 1, "key")
    if not isinstance(key, str) or code is None or error is not None:
        return (outcome(error), 1, None, None)
    return ("ok", 1, Objects([key], [code], success), None)


def single_existed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_EXIST of `is_exist(key)`."""
    del state
    return _single(args, kwargs, whole(result), error, "exist")


def single_put(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_PUT of `put(key, bytes)` and `put_from(key, ptr, size)`."""
    del state
    return _single(args, kwargs, whole(result), error, "put")


def single_got(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_GET of `get(key)`, which answers every failure with no bytes at all."""
    del state
    return _single(args, kwargs, len(result) if isinstance(result, bytes) else None, error, "get")


def removed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """STORE_REMOVE of `remove_all(force)`: the number removed, or a code."""
    del state
    return (outcome(error), whole(result), bool(argument(args, kwargs, 1, "force", False)))


def pool_handed(args: Args, kwargs: Kwargs, state: Any, result: Any, error: BaseException | None) -> Any:
    """BUFFER_POOL: which host pool was handed over (SGLang `mooncake_store.py`, register_mem_pool_host and its v2)."""
    del state, result
    pool = args[1] if len(args) > 1 else next(iter(kwargs.values()), None)
    name = argument(args, kwargs, 2, "host_pool_name")
    skipped = getattr(pool, "kv_buffer", None) is None and name is None
    return (outcome(error, declined=skipped), str(getattr(name, "value", name) or "kv"), type(pool).__name__, "A20" if skipped else None, None)


def closes(args: Args, kwargs: Kwargs) -> Any:
    """Nothing to read before a close."""
    del args, kwargs


def never(args: Args, kwargs: Kwargs) -> Any:
    """A call that is never recorded."""
    del args, kwargs
    return SKIP
