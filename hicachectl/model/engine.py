"""What one scheduler process is: ranks, settings, and whether its storage backend exists and can serve."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from hicachectl.model.take import count, failed, flag, number, strings, text
from hicachectl.store import Ledger, Recording, Span
from hicachectl.store.span import Value
from tracers import vocabulary as v
from tracers.points import ALL

NEEDED = frozenset(point.id for point in ALL if point.rungs)
"""Points that some rung needs."""
SPAN_OF = {point.id: point.span for point in ALL}
STORING_TREES = ("HiRadixCache", "UnifiedRadixCache")
"""Prefix trees that can have a storage backend."""
YES, PARTIAL, NO, NOT_ASKED, UNKNOWN = "yes", "partial", "no", "not_asked", "unknown"

PROCESS_SPANS = frozenset(
    {
        v.ENGINE_START, v.ENGINE, v.LEDGER, v.BACKEND_CREATE, v.BACKEND_CONFIG, v.BACKEND_OPEN, v.BACKEND_WARMUP, v.BACKEND_ATTACH,
        v.BACKEND_ATTACH_ASKED, v.BACKEND_DETACH, v.CONTROLLER_OPEN, v.TREE_OPEN, v.BUFFER_POOL, v.BUFFER_REGISTER, v.STORE_SETUP, v.STORE_REMOVE,
        v.WRITE_THREAD, v.PREFETCH_THREAD, v.EVICT_DEVICE, v.EVICT_HOST, v.FLUSH, v.RESET, v.STORAGE_CLEAR, v.WARMUP, v.LOAD_BACK_START,
        v.LOAD_BACK_DONE, v.FORWARD, v.EXECUTED,
    }
)  # fmt: skip
"""Spans that an engine, not a request, is asked about."""


@dataclass(slots=True)
class Engine:
    """One process of a recording, by its own spans."""

    id: str
    resource: dict[str, Value]
    ledger: Ledger | None
    spans: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    missing: int = 0
    """Spans that this process says it wrote and that are not in the recording."""
    seen: set[str] = field(default_factory=set)
    """Names of all its spans, those of requests as well."""
    family: str = ""
    """Engines with the same value are ranks of one server."""
    uncovered_puts: int = 0
    uncovered_gets: int = 0

    def last(self, name: str) -> Span | None:
        """The newest span of this name, or None."""
        found = self.spans.get(name)
        return found[-1] if found else None

    def first(self, name: str) -> Span | None:
        """The oldest span of this name, or None."""
        found = self.spans.get(name)
        return found[0] if found else None

    def all(self, name: str) -> list[Span]:
        """Every span of this name in time order."""
        return self.spans.get(name, [])

    def setting(self, key: str, at_ns: int | None = None) -> Value | None:
        """A setting in force at a time, else at the end: an attach while it ran says it, then what was built last, else what was asked for."""
        for name in (v.BACKEND_ATTACH_ASKED, v.TREE_OPEN, v.CONTROLLER_OPEN, v.BACKEND_OPEN, v.BACKEND_ATTACH, v.BACKEND_CREATE, v.ENGINE, v.BACKEND_CONFIG, v.ENGINE_START):
            told = [span for span in self.all(name) if key in span.attributes and not failed(span)]
            began = [span for span in told if at_ns is None or span.start_ns <= at_ns]
            if began:
                return began[-1].attributes[key]
            if told and name != v.BACKEND_ATTACH_ASKED:
                return told[0].attributes[key]
        return None

    def number(self, key: str, at_ns: int | None = None) -> int | None:
        """A numeric setting in force."""
        value = self.setting(key, at_ns)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str, at_ns: int | None = None) -> str | None:
        """A setting in force as a string."""
        value = self.setting(key, at_ns)
        return value if isinstance(value, str) else None

    def opened(self, at_ns: int | None = None) -> Span | None:
        """The store client in use at a time: a backend may be detached and attached anew with other settings."""
        good = [span for span in self.all(v.BACKEND_OPEN) if not failed(span)] or self.all(v.BACKEND_OPEN)
        began = [span for span in good if at_ns is None or span.start_ns <= at_ns] or good[:1]
        return began[-1] if began else None

    # -- identity --------------------------------------------------------------------------------------------------
    @property
    def scheduler(self) -> bool:
        """Whether this process is a scheduler."""
        return bool(self.first(v.ENGINE_START) or self.first(v.ENGINE) or (self.ledger is not None and self.ledger.scheduler))

    @property
    def host(self) -> str:
        """Host name."""
        return str(self.resource.get(v.R_HOST) or (self.ledger.host if self.ledger else "") or self.id.split(":", maxsplit=1)[0])

    @property
    def pid(self) -> int:
        """Process id."""
        value = self.resource.get(v.R_PID)
        return value if isinstance(value, int) else (self.ledger.pid if self.ledger else 0)

    @property
    def parent(self) -> tuple[str, int] | None:
        """Host and process id of the process that started this one, where the ledger tells."""
        return (self.host, self.ledger.ppid) if self.ledger is not None and self.ledger.ppid else None

    @property
    def tp_rank(self) -> int:
        """Tensor parallel rank."""
        return self._rank(v.TP_RANK, v.R_TP_RANK)

    @property
    def pp_rank(self) -> int:
        """Pipeline stage."""
        return self._rank(v.PP_RANK, v.R_PP_RANK)

    def _rank(self, key: str, resource_key: str) -> int:
        value = self.number(key)
        if value is None:
            other = self.resource.get(resource_key)
            value = other if isinstance(other, int) else 0
        return value

    @property
    def tp_size(self) -> int:
        """Tensor parallel size."""
        return self.number(v.TP_SIZE) or 1

    @property
    def pp_size(self) -> int:
        """Pipeline stages."""
        return self.number(v.PP_SIZE) or 1

    @property
    def rank(self) -> int:
        """The rank in its server, over all stages: stage by stage, as the engine counts its world."""
        return self.pp_rank * self.tp_size + self.tp_rank

    @property
    def sglang(self) -> str | None:
        """Version of SGLang."""
        return self._version(v.R_SGLANG, "sglang")

    @property
    def mooncake(self) -> str | None:
        """Version of the Mooncake client."""
        return self._version(v.R_MOONCAKE, "mooncake")

    def _version(self, key: str, name: str) -> str | None:
        value = self.resource.get(key) or (self.ledger.versions.get(name) if self.ledger is not None else None)
        return str(value) if value else None

    @property
    def stand_in(self) -> bool:
        """Whether a CPU stands in for the GPU."""
        return bool(self.resource.get(v.R_STAND_IN))

    @property
    def page_size(self) -> int:
        """Tokens in a page."""
        return self.number(v.PAGE_SIZE) or 1

    # -- key scheme ------------------------------------------------------------------------------------------------
    def prefix_at(self, at_ns: int | None = None) -> str:
        """What stands before the page key in this engine's object keys."""
        return text(self.opened(at_ns), v.KEY_PREFIX) or ""

    def suffixes_at(self, at_ns: int | None = None) -> tuple[str, ...]:
        """What stands behind the page key, one for each KV object of a page that this rank owns."""
        return tuple(strings(self.opened(at_ns), v.KEY_SUFFIXES))

    @property
    def key_prefix(self) -> str:
        """The prefix that was in use last."""
        return self.prefix_at()

    @property
    def key_suffixes(self) -> tuple[str, ...]:
        """The suffixes that were in use last."""
        return self.suffixes_at()

    # -- hook points -----------------------------------------------------------------------------------------------
    @property
    def blind(self) -> list[str]:
        """Points that this process could not use, or not always: missing, changed, retired, faulty; waiting where it serves without them."""
        lost = {*self._points("missing", v.POINTS_MISSING), *self._points("changed", v.POINTS_CHANGED), *self._points("retired", v.POINTS_RETIRED)}
        lost |= {*(self.ledger.faulty if self.ledger is not None else strings(self.last(v.LEDGER), v.POINTS_FAULTY))}
        create = self.last(v.BACKEND_CREATE)
        if create is not None and not failed(create) and not failed(self.last(v.ENGINE)):
            # A module that a serving engine has not imported has moved: what it held is called elsewhere, unseen.
            lost |= self.waiting
        return sorted(lost)

    @property
    def waiting(self) -> set[str]:
        """Points that a rung needs and whose module this process has not imported.

        The ledger of a process that was killed may be a moment old: what has made a span is there.
        """
        return {name for name in self._points("waiting", v.POINTS_WAITING) if name in NEEDED and SPAN_OF[name] not in self.seen}

    def _points(self, state: str, key: str) -> list[str]:
        return self.ledger.ids(state) if self.ledger is not None else strings(self.last(v.LEDGER), key)

    @property
    def installed(self) -> int:
        """How many hook points are on."""
        return self.ledger.installed if self.ledger is not None else count(self.last(v.LEDGER), v.POINTS_INSTALLED)

    @property
    def dropped(self) -> int:
        """Spans that this process lost."""
        return self.ledger.dropped if self.ledger is not None else count(self.last(v.LEDGER), v.DROPPED)

    # -- backend ---------------------------------------------------------------------------------------------------
    @property
    def backend_name(self) -> str | None:
        """Storage backend in use, or asked for."""
        for name, key in ((v.BACKEND_ATTACH, v.BACKEND), (v.BACKEND_CREATE, v.BACKEND), (v.ENGINE_START, v.ASKED_BACKEND)):
            found = text(self.last(name), key)
            if found:
                return found
        return None

    @property
    def setup_code(self) -> int | None:
        """What the store client's setup returned last."""
        return number(self.last(v.STORE_SETUP), v.CODE)

    @property
    def registered_bytes(self) -> int:
        """Bytes of all ranges that the store client accepted."""
        return sum(count(span, v.BYTES) for span in self.all(v.BUFFER_REGISTER) if number(span, v.CODE) == 0)

    @property
    def uncovered(self) -> int:
        """Buffers passed to put and get that no registered range covers: harmless over TCP, a failure over RDMA."""
        return self.uncovered_puts + self.uncovered_gets

    def backend_state(self) -> tuple[str, list[str]]:
        """The rung `backend_created` on this rank, and the spans that prove it."""
        asked = self.backend_name is not None
        if not asked:
            start = self.first(v.ENGINE_START)
            return (NOT_ASKED, [start.span_id]) if start is not None else (UNKNOWN, [])
        steps = [self.last(v.BACKEND_CREATE), self.last(v.STORE_SETUP), self.last(v.BACKEND_WARMUP), self.last(v.BACKEND_ATTACH)]
        registers = self.all(v.BUFFER_REGISTER)
        evidence = [step.span_id for step in (*steps, *registers) if step is not None]
        create, setup, warmup, attach = steps
        broken = any(failed(step) for step in steps) or self.setup_code not in (None, 0) or any(number(span, v.CODE) != 0 for span in registers)
        if broken or failed(self.last(v.ENGINE)):
            return NO, evidence
        if create is None and self.first(v.ENGINE) is not None and "backend.create" not in self.blind and self.whole:
            # Without an import of the factory nothing is proved, unless the tree is one that has no storage.
            unseen = "backend.create" in self.waiting and text(self.last(v.ENGINE), v.TREE) in STORING_TREES
            return (UNKNOWN if unseen else NO), evidence
        if None in (create, setup, warmup, attach) or not registers:
            return UNKNOWN, evidence
        return YES, evidence

    def hanging(self) -> list[tuple[int, str | None, str]]:
        """Gets that had not returned when this process was last heard of: (start in ms, request, first object key)."""
        if self.ledger is None or self.ledger.closed:
            return []
        parts = [each.split(" ", 2) for each in self.ledger.running]
        return [(int(began), rid if rid != "-" else None, key) for began, rid, key in (part for part in parts if len(part) == 3) if began.isdigit()]

    @property
    def seen_ms(self) -> int:
        """When this process was last heard of."""
        return self.ledger.seen_ms if self.ledger is not None else 0

    def dead(self, name: str, function: str, at_ns: int) -> Span | None:
        """The death of a storage thread (WRITE_THREAD or PREFETCH_THREAD) that was not made good by a time; a reset or an attach starts it anew."""
        ends = [span for span in self.all(name) if span.error and function in span.thread_name and span.end_ns <= at_ns]
        if not ends:
            return None
        again = (v.RESET, v.BACKEND_ATTACH)
        revived = any(ends[-1].end_ns <= span.start_ns <= at_ns for each in again for span in self.all(each))
        return None if revived else ends[-1]

    @property
    def whole(self) -> bool:
        """Whether no span of this process is known to be lost: none was dropped, and all that its ledger counts are here."""
        return self.dropped == 0 and self.missing == 0 and (self.ledger is not None or bool(self.last(v.LEDGER)))

    @property
    def writes_nothing(self) -> bool:
        """KV is the same on every rank and another rank writes it."""
        return flag(self.last(v.BACKEND_ATTACH), v.BACKUP_SKIP)


def engines(recording: Recording) -> dict[str, Engine]:
    """Every process of RECORDING with its own spans, in the order in which they began."""
    ids: Iterable[str] = {*recording.resources, *recording.ledgers}
    found = {id_: Engine(id_, recording.resources.get(id_, {}), recording.ledgers.get(id_)) for id_ in sorted(ids, key=_begin)}
    have = Counter(span.engine for span in recording.spans)
    for each in found.values():
        each.missing = max(0, each.ledger.written - have[each.id]) if each.ledger is not None else 0
    for span in recording.spans:
        engine = found.get(span.engine)
        if engine is None:
            continue
        engine.seen.add(span.name)
        if span.name in PROCESS_SPANS:
            engine.spans[span.name].append(span)
        elif span.name == v.STORE_PUT:
            engine.uncovered_puts += count(span, v.UNCOVERED)
            if v.RID not in span.attributes:
                engine.spans[span.name].append(span)
        elif span.name == v.STORE_GET:
            engine.uncovered_gets += count(span, v.UNCOVERED)
    _group(found.values())
    return found


def _group(found: Iterable[Engine]) -> None:
    """Name the server of each process: ranks that one parent started for one replica, each rank once.

    A parent may start several engines after each other, and many replicas at once: neither are ranks of one another.
    """
    open_: dict[tuple[object, ...], tuple[str, set[tuple[int, int]]]] = {}
    for engine in found:
        engine.family = engine.id
        size = engine.tp_size * engine.pp_size
        if engine.parent is None or size == 1:
            continue
        replica = (engine.parent, engine.number(v.DP_RANK), engine.tp_size, engine.pp_size)
        rank = (engine.tp_rank, engine.pp_rank)
        name, ranks = open_.get(replica, (engine.id, set()))
        if rank in ranks or len(ranks) == size:
            name, ranks = engine.id, set()
        engine.family = name
        open_[replica] = (name, ranks | {rank})


def _begin(engine: str) -> tuple[int, str]:
    start = engine.rpartition(":")[2]
    return (int(start) if start.isdigit() else 0, engine)
