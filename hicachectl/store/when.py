"""Points in time as a person writes them."""

import re
from datetime import datetime, timezone

from hicachectl.exits import UsageError

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def moment(text: str, option: str, now_ns: int) -> int:
    """TEXT as nanoseconds since the epoch: an ISO time (local unless it names a zone), or how long ago, as in 90s, 10m, 2h, 1d.

    UsageError that names OPTION where TEXT is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_ns - round(float(ago[1]) * _SECONDS[ago[2]] * 1_000_000_000)
    try:
        found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
        return round(found.astimezone(timezone.utc).timestamp() * 1_000_000) * 1000
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{option} {text}: expected a time as in 2025-11-24T16:00:00, or how long ago as in 10m"
        ) from None
