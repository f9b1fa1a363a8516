"""Records -> OTLP/JSON text (opentelemetry-proto's JSON mapping: ids in hex, 64-bit integers as strings).

For each point and each combination of types there is a plan, made once: a text with places, and how each value gets into its place.
"""

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from numbers import Integral, Real
from operator import itemgetter
from typing import Any

from tracers import vocabulary as v
from tracers.point import Point
from tracers.record import Late, Record

LIMIT = 1 << 63
"""Of the integers that OTLP knows."""
MOST_NAMES = 4096
"""Requests and threads whose texts are kept."""
MOST_JOINED = 16_384
"""Requests whose place in somebody else's trace is kept."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the spans of one point look like: their name, and the keys of their values."""

    span: str
    keys: tuple[str, ...]


Plan = Callable[[Record], "str | None"]
"""Makes a span of a record whose values are of the kinds that it was made for, None of another."""


def shapes(points: Iterable[Point]) -> dict[str, Shape]:
    """The shape of each point that makes spans."""
    return {point.id: Shape(point.span, point.attributes) for point in points if point.span is not None}


def text(value: str) -> str:
    """A string in JSON; half a surrogate pair, which JSON readers refuse, as a visible escape."""
    if not value.isascii():
        value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return quoted(value)


def attribute(key: str, value: Any) -> str:
    """One attribute; TypeError for a value of no kind that the vocabulary knows."""
    return f'{{"key":{text(key)},"value":{any_value(value)}}}'


def any_value(value: Any) -> str:
    """A value as OTLP's AnyValue."""
    if isinstance(value, str):
        return f'{{"stringValue":{text(str.__str__(value))}}}'
    if isinstance(value, bool):
        return f'{{"boolValue":{"true" if value else "false"}}}'
    # Nearly all are plain numbers: the question that a type of NumPy may answer costs ten times as much.
    if value.__class__ is int or isinstance(value, Integral):
        return f'{{"intValue":"{clipped(int(value))}"}}'
    if isinstance(value, Real):
        number = float(value)
        return f'{{"doubleValue":{number if math.isfinite(number) else no_number(number)}}}'
    if isinstance(value, (list, tuple)):
        return f'{{"arrayValue":{{"values":[{",".join(map(any_value, value))}]}}}}'
    raise TypeError(f"a {type(value).__name__} is no attribute's value")


def clipped(value: int) -> int:
    """The nearest integer that OTLP knows: a collector would refuse a whole batch for a greater one."""
    return max(-LIMIT, min(value, LIMIT - 1))


def no_number(value: float) -> str:
    """The three floats that JSON lacks, which protobuf's JSON mapping writes as strings."""
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


class Encoder:
    """Encodes the records of one process; BLAME is told of a point whose reader returned nonsense."""

    def __init__(self, shapes: Mapping[str, Shape], blame: Callable[[str, Exception], None], release: Callable[[Late], None]) -> None:
        self.shapes = dict(shapes)
        self.blame = blame
        self.release = release
        self.spans: dict[str, int] = {}
        """Spans made so far, by point."""
        self.details: dict[int, list[tuple[str, Any]]] | None = None
        """Late value (its id) -> what it was, where somebody wants to know; who does empties it after each batch."""
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._latest: dict[str, Plan] = {}
        self._threads: dict[tuple[int, str], str] = {}
        self._requests: dict[str | None, tuple[str, str, str]] = {}
        self.joins: dict[str, tuple[str, str]] = {}
        """Request id -> (trace id, span id) under which its spans belong, for us to take out."""
        self._joined: dict[str, tuple[str, str]] = {}
        self.rename("")

    def rename(self, engine: str) -> None:
        """Take the identity of a process: its trace, and span ids from the operating system, for an engine seeds `random` alike on every rank."""
        self.engine = engine
        self.own = trace_id(engine)
        """The trace of what serves no request."""
        # Every id has 16 digits without a fill.
        self.base = (int.from_bytes(os.urandom(8), "big") >> 4) + (1 << 60)
        self._requests.clear()

    def span_id(self, number: int) -> str:
        """The id of the span with this number, unique in the run."""
        return f"{self.base + number:016x}"

    def spans_of(self, records: Sequence[Record]) -> list[str]:
        """The records as spans; one that cannot be encoded is left out, and its point blamed."""
        found = []
        if self.joins:
            self._join()
        latest = self._latest.get
        for record in records:
            try:
                plan = latest(record[0])
                span = plan(record) if plan is not None else None
                found.append(span or self._span(record))
            except Exception as fault:  # noqa: BLE001 - one odd record must not cost the others
                self._give_up(record, fault)
        for point, count in Counter(map(itemgetter(0), records)).items():
            self.spans[point] = self.spans.get(point, 0) + count
        return found

    def _span(self, record: Record) -> str:
        """The span of a record that is unlike the point's last one."""
        point, values = record[0], record[7]
        if type(values) is not tuple:
            raise TypeError(f"a reader returned a {type(values).__name__}")
        kinds = (point, *map(type, values))
        plan = self._latest[point] = self._plans.get(kinds) or self._plan(kinds)
        span = plan(record)
        if span is None:
            raise TypeError(f"a value is none of {kinds[1:]}")
        return span

    def _plan(self, kinds: tuple[Any, ...]) -> Plan:
        point, *types = kinds
        shape = self.shapes[point]
        if len(types) != len(shape.keys):
            raise ValueError(f"a reader returned {len(types)} values for {len(shape.keys)} attributes")
        known = {
            "here": self, "kinds": kinds, "requests": self._requests, "request": self._request, "threads": self._threads, "thread_text": self._thread,
            "late": self._late, "text": text, "quoted": quoted, "any_value": any_value, "told": _error, "BOOLEANS": ("false", "true"), "LIMIT": LIMIT,
            "no_number": no_number, "clipped": clipped,
        }  # fmt: skip
        exec(compile(_source(shape, types), f"<spans of {point}>", "exec"), known)  # noqa: S102 - our own text
        plan: Plan = known["span"]  # type: ignore[assignment]
        if len(self._plans) < MOST_NAMES:
            self._plans[kinds] = plan
        return plan

    def _late(self, late: Late, point: str) -> str:
        try:
            pairs = late.pairs()
            if self.details is not None:
                self.details[id(late)] = pairs
            return "".join([f",{attribute(key, value)}" for key, value in pairs if value is not None])
        except Exception as fault:  # noqa: BLE001 - the summary is worth a span without it
            self.blame(point, fault)
            return f",{attribute(v.DETAIL_CUT, True)}"
        finally:
            self.release(late)

    def _give_up(self, record: Record, fault: Exception) -> None:
        for value in record[7] if isinstance(record[7], tuple) else ():
            if isinstance(value, Late):
                self.release(value)
        self.spans[record[0]] = self.spans.get(record[0], 0) - 1
        self.blame(record[0], fault)

    def _join(self) -> None:
        """Take over where requests stand in somebody else's trace: told before the first record of the request, or of its next attempt, was queued."""
        while self.joins:
            rid, place = self.joins.popitem()
            if len(self._joined) >= MOST_JOINED:
                del self._joined[next(iter(self._joined))]
            self._joined.pop(rid, None)
            self._joined[rid] = place
            self._requests.pop(rid, None)

    def _request(self, rid: str | None) -> tuple[str, str, str]:
        """(trace id, attribute, parent) of a request, or of work for no request."""
        if len(self._requests) > MOST_NAMES:
            self._requests.clear()
        trace, above = self._joined.get(rid or "") or (trace_id(rid or self.engine), "")
        told = "" if rid is None else f",{attribute(v.RID, rid)}"
        made = trace, told, f'"parentSpanId":"{above}",' if above else ""
        self._requests[rid] = made
        return made

    def _thread(self, thread: tuple[int, str]) -> str:
        if len(self._threads) > MOST_NAMES:
            self._threads.clear()
        made = f"{attribute('thread.id', thread[0])},{attribute('thread.name', thread[1])}"
        self._threads[thread] = made
        return made


def trace_of(span: str) -> str:
    """The trace id of a span that was made here: it stands first."""
    return span[len(_HEAD) : len(_HEAD) + 32]


def trace_id(name: str) -> str:
    """Trace of a request where the engine keeps none: derived from its id alone, so that all ranks and attempts meet; work for no request has its process's."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_HEAD = '{"traceId":"'
_PLAN = """\
def span(record):
    _, start, end, number, parent, rid, thread, values, error = record
    if values.__class__ is not tuple:
        return None
    {values}
    trace, request_text, root = requests.get(rid) or request(rid)
    base = here.base
    above = f'"parentSpanId":"{{hex(base + parent)[2:]}}",' if parent else root
    failed, status = told(error) if error is not None else ("", "")
    return {span}
"""


class _Computed(str):
    """A piece of a span that is an expression, and no constant."""

    __slots__ = ()


def _source(shape: Shape, types: Sequence[type]) -> str:
    """The text of a plan: the span as one f-string, whose constant parts are literals beside it."""
    names = [f"v{place}" for place in range(len(types))]
    pieces = [
        _HEAD, _Computed("trace"), '","spanId":"', _Computed("hex(base + number)[2:]"), '",', _Computed("above"),
        f'"name":{text(shape.span)},"kind":1,"startTimeUnixNano":"', _Computed("start"), '","endTimeUnixNano":"', _Computed("end"),
        '","attributes":[', _Computed("threads.get(thread) or thread_text(thread)"), _Computed("request_text"),
    ]  # fmt: skip
    for name, key, kind in zip(names, shape.keys, types, strict=True):
        pieces += _place(name, key, kind)
    pieces += [_Computed("failed"), "]", _Computed("status"), "}"]
    literals = [f"f'{{{piece}}}'" if isinstance(piece, _Computed) else repr(piece) for piece in pieces]
    tests = [f"{name}.__class__ is not kinds[{place}]" for place, name in enumerate(names, 1)]
    check = f"{''.join(f'{name}, ' for name in names)} = values\n    if {' or '.join(tests)}: return None" if names else "if values: return None"
    return _PLAN.format(values=check, span=" ".join(literals))


_PLACES: dict[type, tuple[str, str, str]] = {
    str: ('{"stringValue":', "quoted({0}) if {0}.isascii() else text({0})", "}}"),
    int: ('{"intValue":"', "{0} if -LIMIT <= {0} < LIMIT else clipped({0})", '"}}'),
    float: ('{"doubleValue":', "{0} if {0} - {0} == 0 else no_number({0})", "}}"),
    bool: ('{"boolValue":', "BOOLEANS[{0}]", "}}"),
}
"""Kind -> what stands before the value, the expression for it, what stands behind."""
_ANY = ("", "any_value({0})", "}")


def _place(name: str, key: str, kind: type) -> list[str]:
    """What puts the value NAME of KIND into a span."""
    if kind is type(None):
        return []
    if issubclass(kind, Late):
        return [_Computed(f"late({name}, _)")]
    front, expression, back = _PLACES.get(kind, _ANY)
    return [f',{{"key":{text(key)},"value":{front}', _Computed(expression.format(name)), back]


def _error(error: tuple[str, str | None]) -> tuple[str, str]:
    name, told = error
    both = f",{attribute(v.ERROR, name)}" + (f",{attribute(v.ERROR_TEXT, told)}" if told is not None else "")
    return both, ',"status":{"code":2}'


def line(resource: str, scope: str, spans: Iterable[str]) -> bytes:
    """One export request: a resource's attributes, a scope, and its spans."""
    return f'{{"resourceSpans":[{{"resource":{{"attributes":[{resource}]}},"scopeSpans":[{{"scope":{scope},"spans":[{",".join(spans)}]}}]}}]}}\n'.encode("ascii")
