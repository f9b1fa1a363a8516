"""What one scheduler process is: ranks, settings, and whether its storage backend exists and can serve."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from hicachectl.model import backend
from hicachectl.model.once import once
from hicachectl.model.take import count, failed, flag, number, numbers, strings, text
from hicachectl.store import Ledger, Span
from hicachectl.store.span import Value
from hicachectl.whole import whole
from tracers import vocabulary as v
from tracers.points import ALL

NEEDED = frozenset(point.id for point in ALL if point.rungs)
"""Points that some rung needs."""
SPAN_OF = {point.id: point.span for point in ALL}
YES, PARTIAL, NO, NOT_ASKED, UNKNOWN = backend.STATES
LOOKUP_THREAD = "prefetch_thread"
"""Where a controller keeps the thread that looks up, as a detach that failed names it."""

PROCESS_SPANS = frozenset(
    {
        v.ENGINE_START, v.ENGINE, v.SETTINGS, v.PD_REGISTER, v.LEDGER, v.BACKEND_CREATE, v.BACKEND_CONFIG, v.BACKEND_OPEN, v.BACKEND_WARMUP, v.BACKEND_ATTACH,
        v.BACKEND_ATTACH_ASKED, v.BACKEND_DETACH, v.CONTROLLER_OPEN, v.TREE_OPEN, v.BUFFER_POOL, v.BUFFER_REGISTER, v.STORE_SETUP, v.STORE_REMOVE,
        v.WRITE_THREAD, v.PREFETCH_THREAD, v.EVICT_DEVICE, v.EVICT_HOST, v.FLUSH, v.RESET, v.STORAGE_CLEAR, v.WARMUP, v.LOAD_BACK_START,
        v.LOAD_BACK_DONE, v.FORWARD, v.EXECUTED,
    }
)  # fmt: skip
"""Spans that an engine, not a request, is asked about."""


COPIES = (v.LOAD_BACK_START, v.LOAD_BACK_DONE)
"""Copies to the device, by nodes."""
NOTED = frozenset({v.EXECUTED, *COPIES})
_START = attrgetter("start_ns")


class _Said(NamedTuple):
    """What the spans of one name said of a setting: when each began, and the value."""

    name: str
    starts: list[int]
    values: list[Value]


_SETTLING = (v.BACKEND_ATTACH_ASKED, v.TREE_OPEN, v.CONTROLLER_OPEN, v.BACKEND_OPEN, v.BACKEND_ATTACH, v.BACKEND_CREATE, v.ENGINE, v.BACKEND_CONFIG, v.ENGINE_START)
"""Spans that tell a setting: the first of these names that does is believed."""


@dataclass(eq=False)
class Engine:
    """One process of a recording, by its own spans; what is worked out from them is worked out once."""

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
    left_out: int = 0
    """Requests that had begun before the tracers were switched on in this process, which ran already."""
    uncovered_puts: int = 0
    uncovered_gets: int = 0
    executed: dict[int, Span] = field(default_factory=dict)
    """Number of a batch -> the first span that says it came back from the device."""
    _of_nodes: dict[str, dict[int, list[Span]]] = field(default_factory=lambda: {name: defaultdict(list) for name in COPIES})
    _backend_states: dict[int | None, tuple[str, list[str]]] = field(default_factory=dict)

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
        told = self._settings.get(key)
        if told is None:
            told = self._settings[key] = list(self._said(key))
        for name, starts, values in told:
            began = len(starts) if at_ns is None else bisect_right(starts, at_ns)
            if began:
                return values[began - 1]
            if name != v.BACKEND_ATTACH_ASKED:
                return values[0]
        return None

    @once
    def _settings(self) -> dict[str, list[_Said]]:
        return {}

    def _said(self, key: str) -> Iterator[_Said]:
        for name in _SETTLING:
            told = [span for span in self.all(name) if key in span.attributes and not failed(span)]
            if told:
                yield _Said(name, [span.start_ns for span in told], [span.attributes[key] for span in told])

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
        starts, good = self._opens
        if not good:
            return None
        began = len(good) if at_ns is None else bisect_right(starts, at_ns)
        return good[max(began, 1) - 1]

    @once
    def _opens(self) -> tuple[list[int], list[Span]]:
        good = [span for span in self.all(v.BACKEND_OPEN) if not failed(span)] or self.all(v.BACKEND_OPEN)
        return [span.start_ns for span in good], good

    def note(self, span: Span) -> None:
        """Keep what a span of batches, or of copies to the device, is found by: they are met in time order, once, and requests ask for them out of it."""
        if span.name == v.EXECUTED:
            batch = number(span, v.BATCH)
            if batch is not None:
                self.executed.setdefault(batch, span)
        else:
            for node in dict.fromkeys(numbers(span, v.NODES)):
                self._of_nodes[span.name][node].append(span)
        span.forget()

    def of_node(self, name: str, node: int, since_ns: int) -> Span | None:
        """The first span of this name (of copies to the device) that began then or later and names a node."""
        spans = self._of_nodes[name].get(node, [])
        place = bisect_left(spans, since_ns, key=_START)
        return spans[place] if place < len(spans) else None

    # -- identity --------------------------------------------------------------------------------------------------
    @once
    def scheduler(self) -> bool:
        """Whether this process is a scheduler."""
        return bool(self.first(v.ENGINE_START) or self.first(v.ENGINE) or (self.ledger is not None and self.ledger.scheduler))

    @once
    def host(self) -> str:
        """Host name."""
        return str(self.resource.get(v.R_HOST) or (self.ledger.host if self.ledger else "") or self.id.split(":", maxsplit=1)[0])

    @once
    def pid(self) -> int:
        """Process id."""
        value = self.resource.get(v.R_PID)
        return value if isinstance(value, int) else (self.ledger.pid if self.ledger else 0)

    @once
    def parent(self) -> tuple[str, int] | None:
        """Host and process id of the process that started this one, where the ledger tells."""
        return (self.host, self.ledger.ppid) if self.ledger is not None and self.ledger.ppid else None

    @once
    def tp_rank(self) -> int:
        """Tensor parallel rank."""
        return self._rank(v.TP_RANK, v.R_TP_RANK)

    @once
    def pp_rank(self) -> int:
        """Pipeline stage."""
        return self._rank(v.PP_RANK, v.R_PP_RANK)

    def _rank(self, key: str, resource_key: str) -> int:
        value = self.number(key)
        if value is None:
            other = self.resource.get(resource_key)
            value = other if isinstance(other, int) else 0
        return value

    @once
    def tp_size(self) -> int:
        """Tensor parallel size."""
        return self.number(v.TP_SIZE) or 1

    @once
    def pp_size(self) -> int:
        """Pipeline stages."""
        return self.number(v.PP_SIZE) or 1

    @once
    def rank(self) -> int:
        """The rank in its server, over all stages: stage by stage, as the engine counts its world."""
        return self.pp_rank * self.tp_size + self.tp_rank

    @once
    def sglang(self) -> str | None:
        """Version of SGLang."""
        return self._version(v.R_SGLANG, "sglang")

    @once
    def mooncake(self) -> str | None:
        """Version of the Mooncake client."""
        return self._version(v.R_MOONCAKE, "mooncake")

    def _version(self, key: str, name: str) -> str | None:
        value = self.resource.get(key) or (self.ledger.versions.get(name) if self.ledger is not None else None)
        return str(value) if value else None

    @once
    def stand_in(self) -> bool:
        """Whether a CPU stands in for the GPU."""
        return bool(self.resource.get(v.R_STAND_IN))

    @once
    def page_size(self) -> int:
        """Tokens in a page."""
        return self.number(v.PAGE_SIZE) or 1

    # -- key scheme ------------------------------------------------------------------------------------------------
    def prefix_at(self, at_ns: int | None = None) -> str:
        """What stands before the page key in this engine's object keys."""
        return self._scheme(self.opened(at_ns))[0]

    def suffixes_at(self, at_ns: int | None = None) -> tuple[str, ...]:
        """What stands behind the page key, one for each KV object of a page that this rank owns."""
        return self._scheme(self.opened(at_ns))[1]

    def _scheme(self, opened: Span | None) -> tuple[str, tuple[str, ...]]:
        name = opened.span_id if opened is not None else ""
        if name not in self._schemes:
            self._schemes[name] = text(opened, v.KEY_PREFIX) or "", tuple(strings(opened, v.KEY_SUFFIXES))
        return self._schemes[name]

    @once
    def _schemes(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        return {}

    @once
    def tenant(self) -> str:
        """Tenant whose objects this engine sees; releases that know none have them all in one."""
        return self.text(v.TENANT) or "default"

    @property
    def key_prefix(self) -> str:
        """The prefix that was in use last."""
        return self.prefix_at()

    @property
    def key_suffixes(self) -> tuple[str, ...]:
        """The suffixes that were in use last."""
        return self.suffixes_at()

    # -- hook points -----------------------------------------------------------------------------------------------
    @once
    def attached_ms(self) -> int | None:
        """When the tracers were switched on in it, where it had been running: what was built before was not seen, and it may run on."""
        return self.ledger.attached_ms if self.ledger is not None else number(self.last(v.LEDGER), v.ATTACHED)

    @once
    def blind(self) -> list[str]:
        """Points that this process could not use, or not always: missing, changed, retired, faulty; waiting where it serves without them."""
        lost = {*self._points("missing", v.POINTS_MISSING), *self._points("changed", v.POINTS_CHANGED), *self._points("retired", v.POINTS_RETIRED)}
        lost |= {*self._points("blind", v.POINTS_BLIND)}
        lost |= {*(self.ledger.faulty if self.ledger is not None else strings(self.last(v.LEDGER), v.POINTS_FAULTY))}
        create = self.last(v.BACKEND_CREATE)
        if create is not None and not failed(create) and not failed(self.last(v.ENGINE)):
            # A module that a serving engine has not imported has moved: what it held is called elsewhere, unseen.
            lost |= self.waiting
        return sorted(lost)

    @once
    def waiting(self) -> set[str]:
        """Points that a rung needs and whose module this process has not imported.

        The ledger of a process that was killed may be a moment old: what has made a span is there.
        """
        return {name for name in self._points("waiting", v.POINTS_WAITING) if name in NEEDED and SPAN_OF[name] not in self.seen}

    def _points(self, state: str, key: str) -> list[str]:
        return self.ledger.ids(state) if self.ledger is not None else strings(self.last(v.LEDGER), key)

    @once
    def installed(self) -> int:
        """How many hook points are on."""
        return self.ledger.installed if self.ledger is not None else count(self.last(v.LEDGER), v.POINTS_INSTALLED)

    @once
    def dropped(self) -> int:
        """Spans that this process lost."""
        return self.ledger.dropped if self.ledger is not None else count(self.last(v.LEDGER), v.DROPPED)

    # -- backend ---------------------------------------------------------------------------------------------------
    @once
    def backend_name(self) -> str | None:
        """Storage backend in use, or asked for."""
        for name, key in ((v.BACKEND_ATTACH, v.BACKEND), (v.BACKEND_CREATE, v.BACKEND), (v.ENGINE_START, v.ASKED_BACKEND)):
            found = text(self.last(name), key)
            if found:
                return found
        return None

    @once
    def setup_code(self) -> int | None:
        """What the store client's setup returned last."""
        return number(self.last(v.STORE_SETUP), v.CODE)

    @once
    def registered_bytes(self) -> int:
        """Bytes of all ranges that the store client in use accepted."""
        return sum(count(span, v.BYTES) for span in backend.registers(self, self.last(v.BACKEND_CREATE)) if number(span, v.CODE) == 0)

    @property
    def uncovered(self) -> int:
        """Buffers passed to put and get that no registered range covers: harmless over TCP, a failure over RDMA."""
        return self.uncovered_puts + self.uncovered_gets

    def backend_state(self, at_ns: int | None = None) -> tuple[str, list[str]]:
        """The rung `backend_created` on this rank at a time, else of the last backend, and the spans that prove it."""
        era = None if at_ns is None else bisect_right(self._changes, at_ns)
        if era not in self._backend_states:
            self._backend_states[era] = backend.state(self, at_ns)
        state, evidence = self._backend_states[era]
        return state, list(evidence)

    @once
    def _changes(self) -> list[int]:
        return sorted(span.start_ns for name in backend.CHANGES for span in self.all(name))

    def hanging(self) -> list[tuple[int, str | None, str]]:
        """Gets that had not returned when this process was last heard of: (start in ms, request, first object key)."""
        if self.ledger is None or self.ledger.closed:
            return []
        parts = [each.split(" ", 2) for each in self.ledger.running]
        return [(began, rid if rid != "-" else None, key) for told, rid, key in (part for part in parts if len(part) == 3) if (began := whole(told)) is not None]

    @property
    def seen_ms(self) -> int:
        """When this process was last heard of."""
        return self.ledger.seen_ms if self.ledger is not None else 0

    def dead(self, name: str, function: str, at_ns: int) -> Span | None:
        """The death of a storage thread (WRITE_THREAD or PREFETCH_THREAD) that was not made good by a time; a reset or an attach starts it anew."""
        ends = [span for span in self.all(name) if span.error and function in span.thread_name and span.end_ns <= at_ns]
        if not ends:
            return None
        return None if self._revived(ends[-1], at_ns) else ends[-1]

    def halted(self, at_ns: int) -> Span | None:
        """The detach that had stopped half way by a time and was not made good: storage is still on, and threads that ended take nothing any more.

        Those that it had waited for in vain end with their call (0.5.14 `managers/cache_controller.py`, _stop_storage_threads: the event stays set).
        """
        last = next((span for span in reversed(self.all(v.BACKEND_DETACH)) if span.end_ns <= at_ns), None)
        return None if last is None or not failed(last) or self._revived(last, at_ns) else last

    def _revived(self, end: Span, at_ns: int) -> bool:
        """Whether a reset or an attach has started the storage threads anew between the end of a span and a time."""
        again = (span for each in (v.RESET, v.BACKEND_ATTACH) for span in self.all(each) if not failed(span))
        return any(end.end_ns <= span.start_ns <= at_ns for span in again)

    @once
    def whole(self) -> bool:
        """Whether no span of this process is known to be lost: none was dropped, and all that its ledger counts are here."""
        return self.dropped == 0 and self.missing == 0 and (self.ledger is not None or bool(self.last(v.LEDGER)))

    @property
    def writes_nothing(self) -> bool:
        """KV is the same on every rank and another rank writes it."""
        return flag(self.last(v.BACKEND_ATTACH), v.BACKUP_SKIP)
