"""From the configuration, as SGLang reads it, and the user's overrides to the settings of a probe."""

import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from hicachectl.exits import BadInputError, UsageError
from hicachectl.mooncake import config as store_config
from hicachectl.mooncake import master
from hicachectl.mooncake.child import WHEELS
from hicachectl.mooncake.client import ClientSettings
from hicachectl.release import Release
from hicachectl.whole import whole

ASSUMED_SGLANG = "0.5.14"
"""Whose rules read the configuration where no SGLang is installed."""
_SIZE = re.compile(r"^(\d+)\s*([kmg]?)(i?b)?$", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


def read(environment: Mapping[str, str], address: str | None, extra_config: str | None) -> store_config.StoreConfig:
    """The store's configuration; where ADDRESS is given, nothing else needs to name a store."""
    sglang = installed_sglang()
    if address is None:
        return store_config.read(environment, extra_config, sglang)
    try:
        return store_config.read(environment, extra_config, sglang)
    except store_config.NotConfiguredError:
        return store_config.read({**environment, "MOONCAKE_MASTER": address}, extra_config, sglang)


def client(
    config: store_config.StoreConfig,
    address: str | None = None,
    protocol: str | None = None,
    device: str | None = None,
    segment_size: int = 0,
    object_size: int = 0,
) -> ClientSettings:
    """How a client of this configuration connects; an override that is None leaves the configuration's value.

    The segment that the configuration names is for engines: this client lends SEGMENT_SIZE bytes, and so by default none.
    """
    asked = config.master_server_address.value if address is None else address
    if asked is None:
        raise UsageError(
            f"the configuration ({config.source.value}) names a client_server_address only, whose master is unknown: give --master HOST:PORT"
        )
    tenant = config.tenant_id.value
    return ClientSettings(
        master_server_address=asked if address is not None else _text("master_server_address", config.master_server_address),
        local_hostname=_text("local_hostname", config.local_hostname),
        metadata_server=_text("metadata_server", config.metadata_server),
        protocol=protocol or _text("protocol", config.protocol),
        device_name=_text("device_name", config.device_for(0)) if device is None else device,
        segment_size=segment_size,
        local_buffer=ClientSettings.staging(object_size),
        tenant_id="" if tenant == store_config.DEFAULT_TENANT else tenant,
    )


def _text(name: str, setting: store_config.Value[Any]) -> str:
    """The value of a setting that the client's `setup` takes as text; JSON can hold anything, and SGLang passes it on as it is."""
    if not isinstance(setting.value, str):
        raise BadInputError(f"{name} {setting.value!r} ({setting.origin}) is no text: the Mooncake client refuses it")
    return setting.value


def admin_port(config: store_config.StoreConfig, address: str | None = None) -> int | None:
    """The admin port that somebody configured for this master; None where only SGLang's default stands for it."""
    port = config.master_metrics_port
    other_master = address is not None and address != config.master_server_address.value
    return None if port.origin == "default" or other_master else whole(str(port.value))


def admin_url(given: str) -> str:
    """The URL of `--admin`, which may leave out the scheme."""
    url = given if "://" in given else f"http://{given}"
    master.host_of(url)
    return url.rstrip("/")


def size_of(text: str) -> int:
    """Bytes of `4096`, `64k`, `64KiB` or `4M`; UsageError for anything else, or for nothing."""
    match = _SIZE.match(text.strip())
    size = int(match[1]) << _UNITS[match[2].lower()] if match else 0
    if size <= 0:
        raise UsageError(f"'{text}' is no size: give bytes, as in 65536, 64k or 4MiB")
    return size


def installed_sglang() -> str:
    """The release of SGLang beside this Python, ASSUMED_SGLANG where there is none."""
    try:
        return Release.of(metadata.version("sglang")).text
    except (metadata.PackageNotFoundError, ValueError):
        return ASSUMED_SGLANG


def installed_mooncake() -> str | None:
    """The release of the Mooncake client beside this Python, None where there is none."""
    for wheel in WHEELS:
        try:
            return Release.of(metadata.version(wheel)).text
        except (metadata.PackageNotFoundError, ValueError):
            continue
    return None
