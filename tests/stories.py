"""Hand-made recordings of engines that look like real ones: an engine that serves, and what becomes of requests in it.

    story = Story()
    story.engine().request("a", pages=8)                     # cold: looked up, computed, written
    story.engine().request("b", pages=8, prompt="a", hit=8)  # the same prompt from the store
    found = story.judged(tmp_path)

Every step of a request can be left out or changed; what is not said is healthy. Times run on by themselves.
"""

import hashlib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from recordings import Engine as MadeEngine
from recordings import MadeSpan, Recording

from hicachectl import store
from hicachectl.diagnosis.run import Diagnosis, diagnose
from tracers import vocabulary as v

STEP = 2.0
"""Milliseconds of a step."""
OBJECT = 8192


def page_names(prompt: str, pages: int, scheme: str) -> list[str]:
    """Page keys of a prompt: names that share a prefix share page keys, one letter a page after the first."""
    return [hashlib.sha256(f"{scheme}|{prompt}|{page}".encode()).hexdigest() for page in range(pages)]


@dataclass
class Serving:
    """An engine of the story."""

    story: "Story"
    made: MadeEngine
    page: int
    prefix: str
    suffixes: list[str]
    threshold: int
    scheme: str
    """Engines of another scheme hash the same tokens to other page keys."""
    batches: int = 0
    operations: int = 0
    nodes: int = 0

    def span(self, name: str, *, took: float = 1.0, rid: str | None = None, **told: Any) -> MadeSpan:
        """A span now, TOOK milliseconds long."""
        at = self.story.now
        self.story.now = at + took + STEP
        return self.made.span(name, at, at + took, rid=rid, **told)

    def request(self, rid: str, pages: int, **told: Any) -> "Serving":
        """One request of PAGES full pages and a few tokens: see `Asked` for what can be said of it."""
        Asked(self, rid, pages, **told).play()
        return self

    def keys(self, prompt: str, pages: int) -> list[str]:
        """Page keys of a prompt under this engine's page size."""
        return page_names(prompt, pages, self.scheme)

    def objects(self, keys: list[str], bad: dict[int, int], kind: str) -> dict[str, Any]:
        """What a batch call at the binding says of the objects of pages; BAD is object index -> code."""
        count = len(keys) * len(self.suffixes)
        codes: dict[int, int] = {}
        for code in bad.values():
            if code < 0 or kind == "exist":
                codes[code] = codes.get(code, 0) + 1
        first = min(bad, default=None)
        told: dict[str, Any] = {
            v.OBJECTS: count,
            v.OBJECTS_OK: count - len(bad),
            v.OBJECTS_CODES: [f"{code}={number}" for code, number in sorted(codes.items())] or None,
            v.OBJECT_PREFIX: self.prefix or None,
            v.PAGE_KEYS: "".join(keys),
            v.OBJECT_SUFFIXES: self.suffixes,
        }
        if first is not None:
            page, part = divmod(first, len(self.suffixes))
            told |= {
                v.FIRST_BAD: first,
                v.FIRST_BAD_KEY: f"{self.prefix}{keys[page]}{self.suffixes[part]}",
                v.FIRST_BAD_CODE: bad[first],
                v.BAD_OBJECTS: sorted(bad),
            }
        if kind != "exist":
            told |= {v.BYTES: (count - len(bad)) * OBJECT, v.BYTES_ASKED: count * OBJECT, v.OBJECT_BYTES: OBJECT, v.RANGES: 1, v.UNCOVERED: 0}
        return told


@dataclass
class Asked:
    """What becomes of one request; the defaults are a cold prompt that is looked up, computed and written."""

    at: Serving
    rid: str
    pages: int
    tail: int = 5
    prompt: str | None = None
    """Requests with the same name have the same tokens."""
    device: int = 0
    """Pages matched on the device when it came."""
    host: int = 0
    """Pages matched on the host when it came."""
    gate: str | None = None
    """Reason for which the store is not asked."""
    hit: int = 0
    """Contiguous pages that the lookup finds."""
    missing: dict[int, int] = field(default_factory=dict)
    """Object index of the lookup -> code, beside what lies beyond HIT."""
    pools: dict[str, int] | None = None
    """Pages that each pool reaches in the lookup, where the model has more than one."""
    lookup_error: str | None = None
    lookup: bool = True
    done: int | None = None
    """Pages read; all that were found where not said."""
    bad_get: dict[int, int] = field(default_factory=dict)
    transfer_error: str | None = None
    transfer: bool = True
    finish: bool = True
    seen_after: float = 0
    """Milliseconds until the scheduler sees that the transfer has ended."""
    revoke: str | None = None
    """Reason for which the engine gives the prefetch up before it reads a page."""
    abort: bool = False
    publish: bool = True
    publish_reason: str | None = None
    others: int = 0
    """Pages that another request had inserted when these were published."""
    loaded: int | None = None
    """Pages loaded back; all that arrived where not said."""
    load_reason: str | None = None
    prefix: int | None = None
    """Pages that the prefill carried."""
    writes: bool = True
    chunks: tuple[int, ...] = ()
    """Pages after which a chunk of the prefill ends: each is written by itself."""
    there: bool = False
    """The pages are in the store when they are to be written."""
    bad_put: dict[int, int] = field(default_factory=dict)
    unwritten: tuple[str, int] | None = None
    """A side pool of which no page is written, and the code of its first object."""
    backup_reason: str | None = None
    store_error: str | None = None
    claims: dict[str, int] | None = None
    extra_key: bool = False
    namespace: int | None = None
    """Number of the extra key."""
    match_off: str | None = None
    """What switches prefix matching off."""
    anchor: str | None = None
    """Page key that the lookup continues from."""
    retry: int | None = None
    """Lookups repeated so far."""
    matched: bool = True
    """What arrived is matched when the request is admitted."""

    def play(self) -> None:
        """Write the spans of the request in their order."""
        keys = self.at.keys(self.prompt or self.rid, self.pages)
        self._queued(keys)
        arrived = self._prefetch(keys) if self.gate is None else 0
        waiting = self.host + (arrived if self.matched else 0)
        loaded = self._load(waiting)
        prefix = self.prefix if self.prefix is not None else self.device + loaded
        self._prefill(prefix)
        if self.writes:
            ends = [prefix, *(end for end in self.chunks if end > prefix), len(keys)]
            for first, last in pairwise(ends):
                self._write(keys[first:last])
        self._say(v.REQUEST_FINISHED, **{v.OUTCOME: "ok", v.PROMPT_TOKENS: self.tokens, v.OUTPUT_TOKENS: 4, v.CACHED_TOKENS: prefix * self.at.page})

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return self.pages * self.at.page + self.tail

    def _say(self, name: str, *, took: float = 1.0, parent: MadeSpan | None = None, error: bool = False, thread: tuple[str, int] = ("MainThread", 0), **told: Any) -> MadeSpan:
        return self.at.span(name, took=took, rid=self.rid, parent=parent, error=error, thread=thread, attributes=told)

    def _queued(self, keys: list[str]) -> None:
        page, asked = self.at.page, (self.pages - self.device - self.host) * self.at.page
        prints = "".join(hashlib.sha256(f"{self.prompt or self.rid}|{block}".encode()).hexdigest()[:16] for block in range(self.tokens // v.FINGERPRINT_BLOCK))
        told = {v.OUTCOME: "ok", v.PROMPT_TOKENS: self.tokens, v.RETRACTED: False, v.EXTRA_KEY: self.extra_key, v.NAMESPACE: self.namespace, v.PAGE_SIZE: page, v.PROMPT_PAGE_KEYS: "".join(keys), v.FINGERPRINT: prints}
        self._say(v.REQUEST_QUEUED, **told)
        told = {v.OUTCOME: "ok", v.PROMPT_TOKENS: self.tokens, v.MATCHED_DEVICE: self.device * page, v.MATCHED_HOST: self.host * page}
        self._say(v.PREFETCH_GATE, **told, **{v.ASKED_TOKENS: asked, v.REASON: self.gate, v.ACCEPTED_TOKENS: 0 if self.gate else asked, v.MATCH_OFF: self.match_off, v.RETRY: self.retry})
        told = {v.ASKED_TOKENS: asked, v.ACCEPTED_TOKENS: 0 if self.gate else asked, v.THRESHOLD: self.at.threshold, v.REASON: self.gate}
        self._say(v.PREFETCH_ENQUEUE, **told, **{v.OCCUPIED: 0, v.CAPACITY_LIMIT: 3200, v.HOST_FREE: 8192, v.STOP_POLICY: "wait_complete", v.ANCHOR: self.anchor})

    def _prefetch(self, keys: list[str]) -> int:
        first, page = self.device + self.host, self.at.page
        asked = keys[first:]
        self.at.operations += 1
        if not self.lookup:
            return 0
        told = {v.OPERATION: self.at.operations, v.ASKED_TOKENS: len(asked) * page, v.THRESHOLD: self.at.threshold}
        if self.lookup_error:
            self._say(v.PREFETCH_LOOKUP, error=True, thread=("prefetch_thread_func", 7), **told, **{v.OUTCOME: "failed", v.ERROR: self.lookup_error})
            return 0
        query = self._say(v.PREFETCH_LOOKUP, took=3, thread=("prefetch_thread_func", 7), **told, **{v.OUTCOME: "ok", v.HIT_TOKENS: self.hit * page})
        width = len(self.at.suffixes)
        bad = self.missing or dict.fromkeys(range(self.hit * width, len(asked) * width), 0)
        self._say(v.STORE_EXIST, parent=query, thread=("prefetch_thread_func", 7), **self.at.objects(asked, bad, "exist"))
        if self.pools:
            short = next((pool for pool, pages in self.pools.items() if pages < len(asked)), None)
            told = {v.PAGES: len(asked), v.FOUND_PAGES: self.hit, v.POOL_PAGES: [f"{pool}={pages}" for pool, pages in self.pools.items()], v.POOL_SHORT: short}
            self._say(v.PREFETCH_POOLS, parent=query, thread=("prefetch_thread_func", 7), **told, **{v.OUTCOME: "ok"})
        return self._read(asked[: self.hit]) if self.hit * page >= self.at.threshold else 0

    def _read(self, found: list[str]) -> int:
        page, done = self.at.page, len(found) if self.done is None else self.done
        told = {v.OPERATION: self.at.operations, v.AGREED_TOKENS: len(found) * page}
        if self.transfer_error:
            self._say(v.PREFETCH_TRANSFER, error=True, thread=("prefetch_io_aux_func", 8), **told, **{v.OUTCOME: "failed", v.ERROR: self.transfer_error, v.DONE_TOKENS: 0})
        elif self.transfer:
            read = self._say(v.PREFETCH_TRANSFER, took=4, thread=("prefetch_io_aux_func", 8), **told, **{v.OUTCOME: "ok", v.DONE_TOKENS: done * page})
            self._say(v.STORE_GET, parent=read, thread=("prefetch_io_aux_func", 8), **self.at.objects(found, self.bad_get, "get"))
        if self.revoke:
            self._say(v.PREFETCH_REVOKE, **{v.OUTCOME: "declined", v.REASON: self.revoke, v.THRESHOLD: self.at.threshold})
        if self.abort:
            self._say(v.PREFETCH_ABORT, **{v.OUTCOME: "ok", v.REASON: "R25"})
        if not self.finish:
            return 0
        self.at.story.now += self.seen_after
        self._say(v.PREFETCH_FINISH, **told, **{v.OUTCOME: "ok", v.DONE_TOKENS: done * page, v.SECONDS: 0.01})
        if done and self.publish:
            self._say(v.PREFETCH_PUBLISH, **{v.OUTCOME: "ok", v.TOKENS: done * page, v.INSERTED_MATCHED: self.others * page, v.REASON: self.publish_reason})
        return done if self.publish and not self.publish_reason else 0

    def _load(self, waiting: int) -> int:
        page, loaded = self.at.page, waiting if self.loaded is None else self.loaded
        told = {v.OUTCOME: "ok", v.ADMITTED: True, v.ADMISSION_RESULT: "continue", v.MATCHED_DEVICE: self.device * page, v.MATCHED_HOST: waiting * page}
        tried = self._say(v.ADMISSION, **told)
        if not waiting:
            return 0
        self.at.nodes += 1
        ask = self._say(v.LOAD_BACK_ASK, parent=tried, **{v.OUTCOME: "ok", v.MATCHED_HOST: waiting * page, v.LOADED_TOKENS: loaded * page, v.REASON: self.load_reason})
        told = {v.NODE: self.at.nodes, v.TOKENS: waiting * page, v.LOADED_TOKENS: loaded * page, v.LOAD_BACK_THRESHOLD: 10, v.DEVICE_FREE: 64, v.DEVICE_EVICTABLE: 32}
        self._say(v.LOAD_BACK, parent=ask, **told, **{v.REASON: self.load_reason})
        if loaded:
            self._say(v.LOAD_BACK_START, **{v.OUTCOME: "ok", v.PRODUCER: 0, v.NODES: [self.at.nodes], v.TOKENS: loaded * page})
            self._say(v.LOAD_BACK_DONE, **{v.OUTCOME: "ok", v.NODES: [self.at.nodes], v.TOKENS: loaded * page})
        return loaded

    def _prefill(self, prefix: int) -> None:
        page = self.at.page
        self.at.batches += 1
        claims = self.claims or {"device": self.device * page, "host": self.host * page, "storage": max(0, prefix - self.device - self.host) * page}
        told = {v.OUTCOME: "ok", v.PREFIX_TOKENS: prefix * page, v.EXTEND_TOKENS: self.tokens - prefix * page, v.FIRST_CHUNK: True, v.BATCH: self.at.batches}
        told |= {v.PROMPT_TOKENS: self.tokens, v.CACHED_TOKENS: prefix * page, v.PRODUCER: -1}
        self._say(v.PREFILL, **told, **{v.CLAIM_DEVICE: claims["device"], v.CLAIM_HOST: claims["host"], v.CLAIM_STORAGE: claims["storage"]})
        self.at.span(v.FORWARD, attributes={v.OUTCOME: "ok", v.BATCH: self.at.batches})
        self.at.span(v.EXECUTED, took=5, attributes={v.OUTCOME: "ok", v.BATCH: self.at.batches})
        self._say(v.WRITE_INSERT, **{v.OUTCOME: "ok", v.TOKENS: self.tokens, v.CHUNKED: False})

    def _write(self, keys: list[str]) -> None:
        if not keys:
            return
        page, node = self.at.page, 100 + self.at.operations
        self.at.operations += 1
        told = {v.NODE: node, v.TOKENS: len(keys) * page, v.PARENT_BACKED: self.backup_reason != "W05", v.HOST_FREE: 16, v.PAGE_KEYS: "".join(keys)}
        done = 0 if self.backup_reason else len(keys) * page
        self._say(v.WRITE_BACKUP, **told, **{v.OUTCOME: "ok", v.WRITTEN_TOKENS: done, v.REASON: self.backup_reason})
        if self.backup_reason:
            return
        self._say(v.WRITE_HOST_DONE, **{v.OUTCOME: "ok", v.NODE: node, v.TOKENS: len(keys) * page})
        self._say(v.WRITE_ENQUEUE, **{v.OUTCOME: "ok", v.OPERATION: self.at.operations, v.PAGES: len(keys), v.QUEUE: 1, v.PAGE_KEYS: "".join(keys)})
        thread = ("backup_thread_func", 9)
        width = len(self.at.suffixes)
        good = 0 if self.bad_put or self.store_error else len(keys)
        told = {v.OPERATION: self.at.operations, v.PAGES: len(keys), v.WRITTEN_TOKENS: good * page, v.QUEUE: 0, v.ERROR: self.store_error}
        write = self._say(v.WRITE_STORE, took=5, thread=thread, error=bool(self.store_error), **told, **{v.OUTCOME: "failed" if self.store_error else "ok"})
        if self.store_error:
            return
        if self.unwritten:
            pool, code = self.unwritten
            bad = dict.fromkeys(range(len(keys) * width), code)
            self._say(v.WRITE_POOLS, parent=write, thread=thread, **{v.OUTCOME: "declined", v.POOL_PAGES: [f"{pool}=0/{len(keys)}"], v.POOL_SHORT: pool})
            self._say(v.STORE_PUT, parent=write, thread=thread, **{**self.at.objects(keys, bad, "put"), v.OBJECT_SUFFIXES: [f"_0_{pool}_k", f"_0_{pool}_v"]})
        absent = {} if self.there else dict.fromkeys(range(len(keys) * width), 0)
        self._say(v.STORE_EXIST, parent=write, thread=thread, **self.at.objects(keys, absent, "exist"))
        if self.there:
            return
        self._say(v.STORE_PUT, parent=write, thread=thread, **self.at.objects(keys, self.bad_put, "put"))


class Story:
    """A recording in the making."""

    def __init__(self) -> None:
        self.recording = Recording()
        self.now = 10.0
        self.engines: list[Serving] = []

    def engine(
        self,
        *,
        page: int = 16,
        threshold: int = 64,
        tag: str | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        backend: bool = True,
        scheme: str = "",
        sglang: str = "0.5.14",
        model: str | None = None,
        **told: Any,
    ) -> Serving:
        """An engine whose backend is up; attributes of its spans are changed by `started`, `opened`, `config`, `setup`, `register`, `attach`, `controller`, `tree`."""
        made = self.recording.engine(pid=101 + 10 * len(self.engines), tp_rank=tp_rank, sglang=sglang)
        suffixes = [f"_{tp_rank}_k", f"_{tp_rank}_v"]
        prefix = "".join(f"{part}_" for part in (tag, model) if part)
        serving = Serving(self, made, page, prefix, suffixes, threshold, f"{page}{scheme}")
        self.engines.append(serving)
        ranks = {v.TP_RANK: tp_rank, v.TP_SIZE: tp_size, v.PP_RANK: 0, v.PP_SIZE: 1}
        serving.span(v.ENGINE_START, attributes={**ranks, v.PAGE_SIZE: page, v.HIERARCHICAL: True, v.ASKED_BACKEND: "mooncake", v.DEVICE: "cuda", v.MODEL: "m"} | told.get("started", {}))
        if backend:
            self._backend(serving, ranks, tag, told)
        return serving

    def _backend(self, serving: Serving, ranks: dict[str, Any], tag: str | None, told: dict[str, Any]) -> None:
        config = {v.OUTCOME: "ok", v.CONFIG_SOURCE: "env", v.MASTER: "store:50051", v.METADATA: "P2PHANDSHAKE", v.PROTOCOL: "rdma", v.DEVICE_NAME: "mlx5_0"}
        serving.span(v.BACKEND_CONFIG, attributes=config | told.get("config", {}))
        setup = {v.OUTCOME: "ok", v.CODE: 0, v.MASTER: "store:50051", v.PROTOCOL: "rdma", v.PROTOCOL_IN_USE: "rdma", v.RDMA_DEVICES: 1, v.SEGMENT_SIZE: 1 << 30}
        serving.span(v.STORE_SETUP, attributes=setup | told.get("setup", {}))
        serving.span(v.BACKEND_WARMUP, attributes={v.OUTCOME: "ok"})
        opened = {v.OUTCOME: "ok", v.TAG: tag, v.KEY_PREFIX: serving.prefix or None, v.KEY_SUFFIXES: serving.suffixes, v.PROTOCOL: "rdma", v.ENGINE_EXISTS: False, v.ENGINE_SHARED: False}
        serving.span(v.BACKEND_OPEN, attributes=opened | told.get("opened", {}))
        serving.span(v.BACKEND_CREATE, attributes={v.OUTCOME: "ok", v.BACKEND: "mooncake", v.BACKEND_CLASS: "MooncakeStore", **ranks})
        pool = serving.span(v.BUFFER_POOL, attributes={v.OUTCOME: "ok", v.POOL: "kv", v.POOL_CLASS: "MHATokenToKVPoolHost"})
        serving.span(v.BUFFER_REGISTER, parent=pool, attributes={v.OUTCOME: "ok", v.CODE: 0, v.ADDRESS: 4096, v.BYTES: 1 << 24} | told.get("register", {}))
        attach = {v.OUTCOME: "ok", v.BACKEND: "mooncake", v.THRESHOLD: serving.threshold, v.CAPACITY_LIMIT: 3200, v.BACKUP_SKIP: False}
        serving.span(v.BACKEND_ATTACH, attributes=attach | told.get("attach", {}))
        controller = {v.OUTCOME: "ok", v.PAGE_SIZE: serving.page, v.WRITE_POLICY: "write_through", v.HOST_TOKENS: 8192, v.DEVICE_TOKENS: 4096, v.KV_DTYPE: "bfloat16"}
        serving.span(v.CONTROLLER_OPEN, attributes=controller | told.get("controller", {}))
        tree = {v.OUTCOME: "ok", v.TREE: "HiRadixCache", v.PAGE_SIZE: serving.page, v.STOP_POLICY: "wait_complete", v.THRESHOLD: serving.threshold, v.WRITE_THRESHOLD: 1}
        tree |= {v.TIMEOUT_BASE: 2.0, v.TIMEOUT_PER_PAGE: 0.1, v.TIMEOUT_MAX: 30.0}
        serving.span(v.TREE_OPEN, attributes=tree | told.get("tree", {}))
        serving.span(v.ENGINE, attributes={v.OUTCOME: "ok", v.TREE: "HiRadixCache", v.PAGE_SIZE: serving.page, v.HIERARCHICAL: True})

    def sample(self, **counted: int) -> None:
        """The master's counters now; KEYS, EVICTED and so on."""
        names = {"keys": v.SAMPLE_KEYS, "evicted": v.SAMPLE_EVICTED}
        told = {names[name]: value for name, value in counted.items()}
        self.recording.engines[0].span(v.STORE_SAMPLE, self.now, self.now + 0.5, attributes={v.MASTER: "store:50051", **told})
        self.now += STEP

    def judged(self, folder: Path) -> Diagnosis:
        """The verdict on the recording, written into FOLDER."""
        return diagnose(store.read([self.recording.write(folder / "run")]))
