"""The native client in a process of its own: reads requests, calls the store, answers with codes and seconds.

Run as a script by `client.Session`: an abort, a segmentation fault or a log line of the native library ends here. Imports the standard
library alone until the client library is asked for, so that any Python can run it, and a command can import its constants.

A request is one JSON line on stdin: `{"call": NAME, ...}`; the answer is one JSON line on the stdout the process was started with.
When stdin ends before `close`, the parent is gone: the keys that this process wrote are removed, and it exits.
"""

import ctypes
import json
import mmap
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

Reply = dict[str, Any]

# Started by path: the folder of this file must not lend its modules (`client`, `config`) to the libraries that are imported below.
if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    del sys.path[0]

WHEELS = ("mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine-cuda13")
ORPHAN_GRACE_S = 90.0
"""How long a process without parent may wait for its call: the library itself gives up a transfer after 60 s."""
PATTERN_BYTES = 1 << 20
GONE = frozenset({0, -704})
"""Codes of a removal after which the key is not there."""


class Arena:
    """Two registered regions of one size: the source, whose every object differs from the next, and the target of the reads."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.regions = (mmap.mmap(-1, total), mmap.mmap(-1, total))
        self.source, self.target = (ctypes.addressof(ctypes.c_char.from_buffer(region)) for region in self.regions)
        block = os.urandom(PATTERN_BYTES)
        for start in range(0, total, PATTERN_BYTES):
            self.regions[0][start : start + PATTERN_BYTES] = block[: min(PATTERN_BYTES, total - start)]
        for start in range(0, total - 8, 4096):
            self.regions[0][start : start + 8] = start.to_bytes(8, "little")
        # Now, and not within the first read's time-out: the kernel gives the memory when it is first written.
        self.wipe(total)

    def wipe(self, size: int) -> None:
        """Zero the first SIZE bytes of the target, so that a later compare cannot be won by bytes of an earlier read."""
        ctypes.memset(self.target, 0, size)

    def same(self, size: int) -> bool:
        """Whether the first SIZE bytes of both regions are equal."""
        memcmp = ctypes.CDLL(None).memcmp
        memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        return bool(memcmp(self.source, self.target, size) == 0)


class Client:
    """The store object, what was registered and written through it, and one method a call."""

    def __init__(self) -> None:
        self.store: Any = None
        self.ready = False
        self.arena: Arena | None = None
        self.written: set[str] = set()

    def about(self, _: Reply) -> Reply:
        """Import the client library; its release, its methods, and whether torch is there. Touches no store."""
        from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415 - only here is the native library loaded

        methods = [name for name in dir(MooncakeDistributedStore) if not name.startswith("_")]
        return {"release": _release(), "methods": methods, "torch": _installed("torch")}

    def setup(self, asked: Reply) -> Reply:
        """Connect. Every other call is refused until this returned 0: before, the native library crashes on most of them."""
        from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415

        self.store = MooncakeDistributedStore()
        arguments = asked["arguments"]
        extra = {
            name: value
            for name, value in asked.get("extra", {}).items()
            if name in str(MooncakeDistributedStore.setup.__doc__)
        }
        reply = _timed(lambda: [self.store.setup(*arguments, **extra)])
        self.ready = reply["codes"] == [0]
        return reply

    def health(self, _: Reply) -> Reply:
        """0 healthy, 1 not set up, 2 master unreachable (`health_check`, mooncake-store/include/pyclient.h)."""
        return _timed(lambda: [self.store.health_check()])

    def arena_of(self, asked: Reply) -> Reply:
        """Allocate and register both regions; codes of the two registrations."""
        arena = self.arena = Arena(asked["bytes"])
        return _timed(
            lambda: [self.store.register_buffer(start, arena.total) for start in (arena.source, arena.target)]
        )

    def put(self, asked: Reply) -> Reply:
        """Put the first SIZE bytes of the source under one key."""
        key, value = self._own([asked["key"]])[0], self._arena.regions[0][: asked["size"]]
        return _timed(lambda: [self.store.put(key, value)])

    def put_blank(self, asked: Reply) -> Reply:
        """Put SIZE zero bytes under one key; where the key exists, the store is to keep what it has."""
        key, value = self._own([asked["key"]])[0], bytes(asked["size"])
        return _timed(lambda: [self.store.put(key, value)])

    def get(self, asked: Reply) -> Reply:
        """Get one key as bytes; the code is the length, since every failure of this call is an empty answer."""
        began = time.perf_counter()
        value: bytes = self.store.get(asked["key"])
        seconds = time.perf_counter() - began
        return {"codes": [len(value)], "seconds": [seconds], "same": value == self._arena.regions[0][: asked["size"]]}

    def is_exist(self, asked: Reply) -> Reply:
        """Ask one key: 1, 0 or a negative code."""
        return _timed(lambda: [self.store.is_exist(asked["key"])])

    def batch_is_exist(self, asked: Reply) -> Reply:
        """Ask all keys in one call."""
        return _timed(lambda: self.store.batch_is_exist(asked["keys"]))

    def get_into(self, asked: Reply) -> Reply:
        """Read one key into the target: bytes or a negative code, and whether the bytes are those put."""
        size, arena = asked["size"], self._arena
        arena.wipe(size)
        reply = _timed(lambda: [self.store.get_into(asked["key"], arena.target, size)])
        reply["same"] = arena.same(size)
        return reply

    def batch_put_from(self, asked: Reply) -> Reply:
        """Put all keys in one zero-copy call, each from its own SIZE bytes of the source."""
        keys = self._own(asked["keys"])
        pointers, sizes = _layout(self._arena.source, len(keys), asked["size"])
        return _timed(lambda: self.store.batch_put_from(keys, pointers, sizes))

    def batch_get_into(self, asked: Reply) -> Reply:
        """Read all keys in one zero-copy call, each into its own SIZE bytes of the target; compared with the source."""
        keys, arena = asked["keys"], self._arena
        arena.wipe(len(keys) * asked["size"])
        pointers, sizes = _layout(arena.target, len(keys), asked["size"])
        reply = _timed(lambda: self.store.batch_get_into(keys, pointers, sizes))
        reply["same"] = arena.same(len(keys) * asked["size"])
        return reply

    def batch_put_from_multi_buffers(self, asked: Reply) -> Reply:
        """Put all keys in one call, each object from two buffers of half its SIZE."""
        keys = self._own(asked["keys"])
        pointers, sizes = _halves(self._arena.source, len(keys), asked["size"])
        return _timed(lambda: self.store.batch_put_from_multi_buffers(keys, pointers, sizes))

    def batch_get_into_multi_buffers(self, asked: Reply) -> Reply:
        """Read all keys in one call, each object into two buffers; compared with the source."""
        keys, arena = asked["keys"], self._arena
        arena.wipe(len(keys) * asked["size"])
        pointers, sizes = _halves(arena.target, len(keys), asked["size"])
        reply = _timed(lambda: self.store.batch_get_into_multi_buffers(keys, pointers, sizes))
        reply["same"] = arena.same(len(keys) * asked["size"])
        return reply

    def load_torch(self, _: Reply) -> Reply:
        """Import torch, which the tensor calls need; seconds, no store call."""
        began = time.perf_counter()
        import torch  # noqa: F401, PLC0415 - seconds and hundreds of megabytes, only where tensors are asked for

        return {"codes": [0], "seconds": [time.perf_counter() - began]}

    def put_tensor(self, asked: Reply) -> Reply:
        """Put a float32 tensor of ELEMENTS elements under one key."""
        key, tensor = self._own([asked["key"]])[0], _tensor(asked["elements"])
        return _timed(lambda: [self.store.put_tensor(key, tensor)])

    def get_tensor(self, asked: Reply) -> Reply:
        """Get one key as a tensor; the code is 0 for a tensor and -1 for None, the only sign of failure this call gives."""
        began = time.perf_counter()
        tensor = self.store.get_tensor(asked["key"])
        seconds = time.perf_counter() - began
        found = tensor is not None
        return {
            "codes": [0 if found else -1],
            "seconds": [seconds],
            "same": found and tensor.equal(_tensor(asked["elements"])),
        }

    def remove(self, asked: Reply) -> Reply:
        """Remove all keys in one call, with force, so that no lease of our own reads keeps them: 0, or -704 where one is not there."""
        keys = asked["keys"]
        reply = _timed(lambda: self.store.batch_remove(keys, True))
        self.written -= {key for key, code in zip(keys, reply["codes"], strict=False) if code in GONE}
        return reply

    def bare(self, asked: Reply) -> Reply:
        """The yardstick: one batch put and one batch get of the same keys, and nothing else; seconds of each."""
        keys, size, clock = self._own(asked["keys"]), asked["size"], time.perf_counter
        puts, sizes = _layout(self._arena.source, len(keys), size)
        gets, _ = _layout(self._arena.target, len(keys), size)
        began = clock()
        put = self.store.batch_put_from(keys, puts, sizes)
        middle = clock()
        got = self.store.batch_get_into(keys, gets, sizes)
        ended = clock()
        return {
            "codes": [*put, *(0 if code == size else code for code in got)],
            "seconds": [middle - began, ended - middle],
        }

    def close(self, _: Reply) -> Reply:
        """Leave the store; a segment of our own is unmounted. Takes about a second in the native library."""
        self.ready = False
        return _timed(lambda: [self.store.close()]) if self.store is not None else {"codes": [0], "seconds": [0.0]}

    def abandon(self) -> None:
        """The parent is gone: remove what this process wrote, and leave."""
        if self.ready:
            self.remove({"keys": sorted(self.written)})
            self.close({})

    @property
    def _arena(self) -> Arena:
        if self.arena is None:
            raise RuntimeError("no buffers yet: arena_of comes first")
        return self.arena

    def _own(self, keys: list[str]) -> list[str]:
        self.written.update(keys)
        return keys


BEFORE_SETUP = frozenset({"about", "setup", "load_torch", "close"})
CALLS: dict[str, Callable[[Client, Reply], Reply]] = {
    row.__name__: row
    for row in (
        Client.about,
        Client.setup,
        Client.health,
        Client.arena_of,
        Client.put,
        Client.put_blank,
        Client.get,
        Client.is_exist,
        Client.batch_is_exist,
        Client.get_into,
        Client.batch_put_from,
        Client.batch_get_into,
        Client.batch_put_from_multi_buffers,
        Client.batch_get_into_multi_buffers,
        Client.load_torch,
        Client.put_tensor,
        Client.get_tensor,
        Client.remove,
        Client.bare,
        Client.close,
    )
}


def answer(client: Client, line: bytes) -> Reply:
    """Run one request; whatever goes wrong in Python is an answer with `error`."""
    try:
        asked = json.loads(line)
        name = asked["call"]
        if name not in BEFORE_SETUP and not client.ready:
            return {"error": "RuntimeError", "text": f"{name} was asked before setup succeeded"}
        return CALLS[name](client, asked)
    except ImportError as error:
        return {"error": "ImportError", "text": str(error)}
    except Exception as error:  # noqa: BLE001 - the boundary of the process: the parent gets every failure as data
        return {"error": type(error).__name__, "text": str(error)}


def serve() -> None:
    """Answer requests until stdin ends; the last request is `close`."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    client = Client()
    while line := requests.get():
        reply = answer(client, line)
        try:
            out.write(json.dumps(reply).encode() + b"\n")
            out.flush()
        except BrokenPipeError:
            break
    client.abandon()
    # A half-used store object can crash while the interpreter takes it down; nothing is left to tidy up.
    os._exit(0)


def _read(requests: "queue.SimpleQueue[bytes]") -> None:
    """Hand on every line; at the end of stdin, bound how long a call that hangs may outlive the parent."""
    for line in sys.stdin.buffer:
        requests.put(line)
    requests.put(b"")
    time.sleep(ORPHAN_GRACE_S)
    os._exit(1)


def _timed(call: Callable[[], Sequence[int]]) -> Reply:
    began = time.perf_counter()
    codes = call()
    return {"codes": list(codes), "seconds": [time.perf_counter() - began]}


def _layout(start: int, count: int, size: int) -> tuple[list[int], list[int]]:
    return [start + index * size for index in range(count)], [size] * count


def _halves(start: int, count: int, size: int) -> tuple[list[list[int]], list[list[int]]]:
    first = size // 2
    pointers = [[start + index * size, start + index * size + first] for index in range(count)]
    return pointers, [[first, size - first]] * count


def _tensor(elements: int) -> Any:
    import torch  # noqa: PLC0415

    return torch.arange(elements, dtype=torch.float32)


def _release() -> str:
    names = {wheel: metadata.version(wheel) for wheel in WHEELS if any(metadata.distributions(name=wheel))}
    return next(iter(names.values()), "")


def _installed(name: str) -> bool:
    import importlib.util  # noqa: PLC0415

    return importlib.util.find_spec(name) is not None


if __name__ == "__main__":
    serve()
