"""The only reader of the environment."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

MOONCAKE_VARIABLES = {
    "MOONCAKE_MASTER": "master_server_address",
    "MOONCAKE_PROTOCOL": "protocol",
    "MOONCAKE_DEVICE": "device_name",
    "MOONCAKE_TE_META_DATA_SERVER": "metadata_server",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "global_segment_size",
    "MOONCAKE_LOCAL_HOSTNAME": "local_hostname",
}
"""Variable -> field of SGLang's MooncakeStoreConfig (SGLang `mem_cache/storage/mooncake_store/mooncake_store.py`)."""


GRPC, PROTOBUF, JSON = "grpc", "http/protobuf", "http/json"
PROTOCOLS = (GRPC, PROTOBUF, JSON)
TRACES, METRICS = "traces", "metrics"
"""Signals: over HTTP each has its path, `/v1/<signal>`, and each has variables of its own, which go before the common ones."""
COMPRESSIONS = ("gzip", "none")
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Collector:
    """Where one signal is sent beside the file, from OpenTelemetry's own variables (opentelemetry.io, OTLP exporter configuration)."""

    endpoint: str
    """URL; over HTTP with its path, over gRPC a bare HOST:PORT will do."""
    protocol: str = PROTOBUF
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = TIMEOUT_S
    gzip: bool = False
    certificate: str | None = None
    """File of the authorities to trust."""
    secure: bool = False
    """Whether gRPC goes over TLS; over HTTP the URL says it."""
    queue_bytes: int = 32 << 20
    """Bytes of encoded spans that may wait."""
    unheeded: str = ""
    """A sampler, or a temporality of metrics, that is not obeyed."""
    misread: tuple[str, ...] = ()
    """Settings, as NAME=VALUE, that mean nothing: their defaults are in force."""
    share: float = 1.0
    """Share of the requests whose spans are sent; what serves no request is sent always."""
    signal: str = TRACES

    @property
    def shown(self) -> str:
        """The endpoint without a name and password in it, and without a query."""
        scheme, found, rest = self.endpoint.partition("://")
        return f"{scheme}{found}{rest.partition('?')[0].rpartition('@')[2]}" if found else scheme.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked of the tracers in this process."""

    folder: Path | None
    """Where the recording goes; None switches the tracers off."""
    queue: int
    """Spans that may wait for the writer."""
    detail: int
    """Objects and tokens whose detail may wait for the writer."""
    part_bytes: int
    """Size at which a spans file is rotated."""
    parts: int
    """Rotated files kept beside the current one."""
    service: str
    collector: Collector | None = None
    """Where spans are sent as well; None for nowhere."""
    metrics: Collector | None = None
    """Where metrics are sent; None for nowhere."""
    interval_s: float = 60.0
    """Time from one sending of the metrics to the next."""
    resource: tuple[tuple[str, str], ...] = ()
    """What the user says of this process (OTEL_RESOURCE_ATTRIBUTES)."""
    attach: Path | None = None
    """Folder of the socket through which the tracers can be switched on later; None where nothing listens."""


def at_attach(folder: Path, told: Mapping[str, str]) -> Settings:
    """Settings for a recording in FOLDER that begins now: this process's environment, with OpenTelemetry's variables of TOLD on top."""
    from tracers.vocabulary import COLLECTOR_OVERRULED  # noqa: PLC0415 - most processes need none of it

    named = {name: value for name, value in told.items() if name.startswith("OTEL_")}
    kept = {name: value for name, value in os.environ.items() if not named or name not in COLLECTOR_OVERRULED}
    return read({**kept, **named, "HICACHECTL_TRACE": str(folder)})


def read(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from ENVIRONMENT; numbers that cannot be read fall back to the defaults."""
    env = os.environ if environment is None else environment
    folder = env.get("HICACHECTL_TRACE", "")
    off = env.get("HICACHECTL_OFF") == "1"
    told = _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    return Settings(
        folder=Path(folder) if folder and not off else None,
        queue=_number(env, "HICACHECTL_QUEUE", 32768),
        detail=_number(env, "HICACHECTL_DETAIL", 400_000),
        part_bytes=_number(env, "HICACHECTL_PART_BYTES", 256 << 20),
        parts=_number(env, "HICACHECTL_PARTS", 7),
        service=env.get("OTEL_SERVICE_NAME", "") or dict(told).get("service.name", "") or "sglang",
        collector=_traces(env) if folder and not off else None,
        metrics=_metrics(env) if folder and not off else None,
        interval_s=max(100, _number(env, "OTEL_METRIC_EXPORT_INTERVAL", 60_000)) / 1000,
        resource=tuple((key, value) for key, value in told if key != "service.name"),
        attach=_attach(env) if env.get("HICACHECTL_ATTACH") == "1" and not off else None,
    )


def _attach(env: Mapping[str, str]) -> Path:
    from tracers.vocabulary import ATTACH_FOLDER, ATTACH_FOLDER_VARIABLE  # noqa: PLC0415 - as above

    return Path(env.get(ATTACH_FOLDER_VARIABLE, "") or ATTACH_FOLDER.format(uid=os.geteuid()))


def _traces(env: Mapping[str, str]) -> Collector | None:
    """The collector that ENV names for traces, None where it names none or switches them off.

    A sampler is of what is sent: the file has every span, or a verdict would be a guess. Those that are obeyed decide by trace id alone.
    """
    sampler, given = (env.get(f"OTEL_TRACES_SAMPLER{name}", "").strip().lower() for name in ("", "_ARG"))
    if env.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none" or sampler.endswith("always_off"):
        return None
    if sampler in ("traceidratio", "parentbased_traceidratio"):
        share = _share(given)
        found = _collector(env, TRACES, f"{sampler} with {given}" if share is None else "")
        return found and replace(found, share=1.0 if share is None else share)
    return _collector(env, TRACES, "" if sampler.endswith("always_on") else sampler)


def _share(given: str) -> float | None:
    """A share from 0 to 1, 1 where none is GIVEN, None where it is no share: OpenTelemetry has that ignored, and said."""
    try:
        share = float(given or "1")
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


def _metrics(env: Mapping[str, str]) -> Collector | None:
    """The collector that ENV names for metrics, None where it names none, or exporters without otlp among them: no engine opens a port."""
    exporters = {name.strip().lower() for name in env.get("OTEL_METRICS_EXPORTER", "").split(",")} - {""}
    if exporters and "otlp" not in exporters:
        return None
    temporality = env.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "").strip().lower()
    return _collector(env, METRICS, "" if temporality == "cumulative" else temporality)


def _collector(env: Mapping[str, str], signal: str, unheeded: str) -> Collector | None:
    """The collector that ENV names for SIGNAL, None where it names none or switches OpenTelemetry off."""
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_"

    def told(name: str) -> str:
        return env.get(own + name, "").strip() or env.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()

    endpoint = told("ENDPOINT")
    if not endpoint or env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None

    protocol = told("PROTOCOL").lower()
    protocol = protocol if protocol in PROTOCOLS else PROTOBUF
    if protocol != GRPC and not env.get(f"{own}ENDPOINT", "").strip():
        endpoint = f"{endpoint.rstrip('/')}/v1/{signal}"
    scheme, found, _ = endpoint.partition("://")
    return Collector(
        endpoint=endpoint,
        protocol=protocol,
        headers=_pairs(told("HEADERS")),
        timeout_s=_timeout(told("TIMEOUT")) or TIMEOUT_S,
        gzip=told("COMPRESSION").lower() == "gzip",
        certificate=told("CERTIFICATE") or None,
        secure=scheme.lower() in ("https", "grpcs") if found else told("INSECURE").lower() != "true",
        queue_bytes=_number(env, "HICACHECTL_COLLECTOR_BYTES", 32 << 20),
        unheeded=unheeded,
        misread=tuple(_misread(env, own)),
        signal=signal,
    )


READABLE: dict[str, Callable[[str], bool]] = {
    "PROTOCOL": lambda text: text.lower() in PROTOCOLS,
    "TIMEOUT": lambda text: _timeout(text) is not None,
    "COMPRESSION": lambda text: text.lower() in COMPRESSIONS,
}
"""Settings of the exporter that may mean nothing."""


def _misread(env: Mapping[str, str], own: str) -> Iterator[str]:
    """NAME=VALUE of each setting that means nothing, by the variable that says it: a signal's OWN goes before the common one."""
    for name, readable in READABLE.items():
        given = [(variable, text) for variable in (own + name, f"OTEL_EXPORTER_OTLP_{name}") if (text := env.get(variable, "").strip())]
        if given and not readable(given[0][1]):
            yield "=".join(given[0])


def _timeout(text: str) -> float | None:
    """Seconds of a timeout in milliseconds, which OpenTelemetry specifies; its Python SDK reads seconds, so that small numbers are those. None: it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    if not 0 < number < float("inf"):
        return None
    return number if number < 100 else number / 1000


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`key=value,key=value` with percent escapes (W3C Baggage, as OpenTelemetry writes headers and resources); what is none is left out."""
    if not text:
        return ()
    from urllib.parse import unquote  # noqa: PLC0415 - most processes need none of it

    pairs = (part.partition("=") for part in text.split(","))
    return tuple((unquote(key.strip()), unquote(value.strip())) for key, found, value in pairs if found and key.strip())


def stand_in() -> str | None:
    """`cpu` where the lab put CPU stand-ins in the place of GPU kernels, else None."""
    return os.environ.get("HICACHECTL_STAND_IN") or None


def user_set() -> dict[str, str]:
    """The Mooncake variables that the user set: those that the lab provides do not count."""
    provided = dict(line.partition("=")[::2] for line in os.environ.get("HICACHECTL_LAB_PROVIDES", "").split("\n") if line)
    return {name: os.environ[name] for name in MOONCAKE_VARIABLES if name in os.environ and os.environ[name] != provided.get(name)}


def config_file_named() -> bool:
    """Whether the environment names a Mooncake configuration file."""
    return bool(os.environ.get("SGLANG_HICACHE_MOONCAKE_CONFIG_PATH"))


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    try:
        return max(1, int(env.get(name, "")))
    except ValueError:
        return default
