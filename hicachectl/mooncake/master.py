"""The store's master over its admin HTTP port: health, gauges, counters, segments, keys; nothing here needs the client library."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from hicachectl.exits import BadInputError, UnreachableError, one_line
from hicachectl.patience import at_most
from hicachectl.release import Release

DEFAULT_TIMEOUT_S = 3.0
LONGEST_ANSWER_S = 60.0
LARGEST_ANSWER = 1 << 30
"""A gigabyte: ten million keys of the longest form that SGLang writes, told by `/get_all_keys`."""
DEFAULT_ADMIN_PORT = 9003
"""What SGLang assumes where nothing names the port (`MOONCAKE_MASTER_METRICS_PORT`, sglang/srt/environ.py)."""

_SAMPLE_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*(?:\{[^}]*\})?)\s+([-+0-9.eE]+|[-+]?Inf|NaN)(?:\s+\d+)?$")
_SENDABLE = re.compile(r"[A-Za-z0-9/@:=,;!$'()*?._~-]+")
_REQUESTS = re.compile(r"^master_(\w+)_requests_total$")


@dataclass(frozen=True, slots=True)
class Counter:
    """One number of a recording's sample: its name, and the metrics whose sum it is."""

    name: str
    metrics: tuple[str, ...]


SAMPLED: tuple[Counter, ...] = (
    Counter("keys", ("master_key_count",)),
    Counter("soft_pinned_keys", ("master_soft_pin_key_count",)),
    Counter("used_bytes", ("master_allocated_bytes",)),
    Counter("capacity_bytes", ("master_total_capacity_bytes",)),
    Counter("clients", ("master_active_clients",)),
    Counter("evicted_keys", ("master_evicted_key_count",)),
    Counter("evicted_bytes", ("master_evicted_size_bytes",)),
    Counter("evictions", ("master_successful_evictions_total",)),
    Counter("eviction_attempts", ("master_attempted_evictions_total",)),
    Counter("alloc_failures", ("master_put_start_alloc_failures_total",)),
    Counter("put_failures", ("master_put_start_failures_total", "master_batch_put_start_failures_total")),
    Counter("get_failures", ("master_get_replica_list_failures_total", "master_batch_get_replica_list_failures_total")),
    Counter("exist_failures", ("master_exist_key_failures_total", "master_batch_exist_key_failures_total")),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between masters, told by fields of `/health` alone, because no master can be asked for its release.

    Sources: the flags' defaults and the HTTP handlers of the master at 0.3.11.post1, 0.3.12 and 0.3.13.post1.
    """

    releases: str
    eviction_watermark: float
    lease_ms: int
    batch_query_is_read_only: bool


DIALECTS: Mapping[bool, Dialect] = {
    False: Dialect("before 0.3.12", 0.95, 5000, batch_query_is_read_only=False),
    True: Dialect("0.3.12 or later", 0.90, 10000, batch_query_is_read_only=True),
}
"""By whether `/health` has the field `leader_address`. A master before 0.3.12 has it with a high-availability backend alone, and is then
taken for a later one: that errs on the careful side."""


def spoken_by(mooncake_release: str) -> Dialect:
    """The dialect of a master of this release; ValueError for what is no release."""
    return DIALECTS[Release.of(mooncake_release) >= Release.of("0.3.12")]


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of `/health`; None where the master does not say."""

    service_ready: bool | None
    role: str
    state: str
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of an object: bytes, the transport its owner speaks, and where it is."""

    size: int
    protocol: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class Query:
    """An endpoint that looks keys up: its path, and what it does to what it looks at."""

    path: str
    takes_lease: bool
    counts_as_hit: bool


def base_url(master_address: str, admin_port: int = DEFAULT_ADMIN_PORT) -> str:
    """The admin port's URL beside a master's RPC address, built the way SGLang's own check does: same host, other port."""
    return f"http://{host_of(master_address)}:{admin_port}"


def host_of(address: str) -> str:
    """The host of `host:port`, `[v6]:port` or a URL; brackets stay on an IPv6 host. BadInputError where there is none."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host = parts.hostname
    except ValueError:
        host = None
    if not host:
        raise BadInputError(f"'{address}' is not a master's address: expected HOST:PORT, as in 127.0.0.1:50051")
    return f"[{host}]" if ":" in host else host


def health(base: str, timeout: float = DEFAULT_TIMEOUT_S) -> Health:
    """Ask `/health`; a standby answers too, with `service_ready` false."""
    body = _mapping(base, "/health", _get(base, "/health", timeout, also=(503,)).content)
    ready = body.get("service_ready")
    return Health(
        service_ready=ready if isinstance(ready, bool) else None,
        role=str(body.get("role", "")),
        state=str(body.get("ha_state", "")),
        dialect=DIALECTS["leader_address" in body],
    )


def metrics(base: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, int | float]:
    """Every sample of `/metrics`, by its name as written there, labels included. BadInputError where there is none of a master's."""
    samples = parse_metrics(_get(base, "/metrics", timeout).text)
    if "master_key_count" not in samples:
        raise BadInputError(
            f"{base}/metrics answers, but not as a Mooncake master: there is no master_key_count. Is this the admin port?"
        )
    return samples


def parse_metrics(text: str) -> dict[str, int | float]:
    """Samples of a Prometheus text page; whole numbers as int, lines that are no sample are skipped."""
    samples: dict[str, int | float] = {}
    for line in text.splitlines():
        match = _SAMPLE_LINE.match(line.strip())
        if match is None:
            continue
        value = _number(match.group(2))
        if value is not None:
            samples[match.group(1)] = value
    return samples


def summary(base: str, timeout: float = DEFAULT_TIMEOUT_S) -> str:
    """The one-line text of `/metrics/summary`, harmless to a terminal."""
    return one_line(_get(base, "/metrics/summary", timeout).text)


def segments(base: str, timeout: float = DEFAULT_TIMEOUT_S) -> list[str]:
    """Names of the mounted segments, one per client that lends memory."""
    return _lines(_get(base, "/get_all_segments", timeout).text)


def keys(base: str, timeout: float = DEFAULT_TIMEOUT_S) -> list[str]:
    """Every key of the store. The master walks all its shards for it: not for a loop. Takes no lease."""
    return _lines(_get(base, "/get_all_keys", timeout).text)


def query_for(mooncake_release: str) -> Query:
    """The gentlest look-up of a release: `/batch_query_keys`, read-only since 0.3.12; before, it leases and counts like `/query_key`.

    Source: Mooncake's master, handlers of both paths at 0.3.11.post1 and 0.3.12.
    """
    read_only = spoken_by(mooncake_release).batch_query_is_read_only
    return Query("/batch_query_keys", takes_lease=not read_only, counts_as_hit=not read_only)


def query_key(base: str, key: str, timeout: float = DEFAULT_TIMEOUT_S) -> list[Copy] | None:
    """Copies of one object, None where the master has no such key. Takes a lease and counts as a hit in every release."""
    response = _get(base, f"/query_key?key={_bare(key)}", timeout, also=(404,))
    if response.status_code == httpx.codes.NOT_FOUND:
        if b"OBJECT_NOT_FOUND" not in response.content:
            raise BadInputError(f"{base}/query_key: no such page; is this a Mooncake master's admin port?")
        return None
    answers = [_mapping(base, "/query_key", line.encode()) for line in _lines(response.text) or [""]]
    # 0.3.12 and later wrap the copies in one object; before, each copy was a line of its own.
    return [_copy(value) for answer in answers for value in answer.get("data", [answer])]


def batch_query_keys(
    base: str, wanted: Iterable[str], timeout: float = DEFAULT_TIMEOUT_S
) -> dict[str, list[Copy] | None]:
    """Copies by key, None where the master has no such key. `query_for` says what the call does to the objects.

    The endpoint splits its argument at commas, so a key that holds one cannot be asked here: BadInputError.
    """
    asked = list(wanted)
    if not asked:
        return {}
    if any("," in key for key in asked):
        raise BadInputError("a key with a comma cannot be asked of /batch_query_keys, which splits at commas")
    path = f"/batch_query_keys?keys={','.join(_for_batch(base, asked, timeout))}"
    body = _mapping(base, "/batch_query_keys", _get(base, path, timeout).content)
    data = body.get("data")
    if not isinstance(data, dict):
        raise BadInputError(
            f"{base}/batch_query_keys: the answer has no 'data': {_shown(str(body.get('error', body)))}"
        )
    return {key: _copies(data.get(key)) for key in asked}


def sample(base: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, int | float]:
    """The counters that a recording samples: SAMPLED of `/metrics`, and `segments`, a count. Takes no lease, counts as no hit."""
    return sampled(metrics(base, timeout)) | {"segments": len(segments(base, timeout))}


def sampled(values: Mapping[str, int | float]) -> dict[str, int | float]:
    """SAMPLED of what `metrics` returned; a metric that this release lacks counts as 0."""
    return {row.name: sum(values.get(name, 0) for name in row.metrics) for row in SAMPLED}


def operations(values: Mapping[str, int | float]) -> dict[str, tuple[int, int]]:
    """Per operation of the master, from `metrics`: (requests, failures)."""
    found: dict[str, tuple[int, int]] = {}
    for name, requests in values.items():
        match = _REQUESTS.match(name)
        if match:
            operation = match.group(1)
            found[operation] = (int(requests), int(values.get(f"master_{operation}_failures_total", 0)))
    return found


def _for_batch(base: str, keys: list[str], timeout: float) -> list[str]:
    """Keys for `/batch_query_keys`, which decodes them since 0.3.12; the release is asked for only where it matters."""
    if all(_SENDABLE.fullmatch(key) for key in keys) or not health(base, timeout).dialect.batch_query_is_read_only:
        return [_bare(key) for key in keys]
    return [quote(key, safe="") for key in keys]


def _bare(key: str) -> str:
    """A key as it stands in the URL: not every master decodes, so where it is unknown only what needs no encoding can be asked."""
    if not _SENDABLE.fullmatch(key):
        raise BadInputError(
            f"the key '{_shown(key)}' cannot be asked over HTTP: masters do not decode what its characters would need"
        )
    return key


def _copies(answer: Any) -> list[Copy] | None:
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        return None
    values = answer.get("values")
    return [_copy(value) for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _copy(value: Mapping[str, Any]) -> Copy:
    size = value.get("size_", 0)
    return Copy(
        size if isinstance(size, int) else 0, str(value.get("protocol_", "")), str(value.get("transport_endpoint_", ""))
    )


@dataclass(frozen=True, slots=True)
class _Page:
    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


def _get(base: str, path: str, timeout: float, also: tuple[int, ...] = ()) -> _Page:
    """One GET that ends in an answer or in one sentence. A proxy of the environment is not for the store's own network."""
    url = f"{base.rstrip('/')}{path}"
    try:
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            at_most(LONGEST_ANSWER_S, client, lambda: f"{url} does not stop answering: this is not a master's admin port"),
            client.stream("GET", url) as response,
        ):
            page = _Page(response.status_code, _body(url, response))
    except httpx.TimeoutException as error:
        raise UnreachableError(
            f"no answer from {url} within {timeout:g} s: is the master stuck, or the port filtered?"
        ) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
        raise BadInputError(f"'{_shown(base)}' is not the URL of an admin port: expected http://HOST:PORT") from error
    except httpx.RemoteProtocolError as error:
        raise BadInputError(f"{url} does not speak HTTP: the admin port is another one than the RPC port") from error
    except httpx.HTTPError as error:
        raise UnreachableError(f"cannot reach the master's admin port at {url}: {_shown(str(error))}") from error
    if page.status_code != httpx.codes.OK and page.status_code not in also:
        raise BadInputError(f"{url} answered HTTP {page.status_code}: {_shown(page.text) or 'nothing more'}")
    return page


def _body(url: str, response: httpx.Response) -> bytes:
    """The whole body, of a bounded size."""
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise BadInputError(
                f"{url} does not stop answering ({size} bytes so far): this is not a master's admin port"
            )
    return b"".join(pieces)


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def _mapping(base: str, path: str, content: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(
            f"{base}{path} did not answer JSON: {_shown(content.decode(errors='replace'))}. Is this the admin port?"
        ) from error
    if not isinstance(body, dict):
        raise BadInputError(f"{base}{path} answered JSON, but no object: {_shown(str(body))}")
    return body


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _shown(text: str, limit: int = 120) -> str:
    text = one_line(text)
    return text if len(text) <= limit else f"{text[:limit]}..."
