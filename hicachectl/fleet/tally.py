"""Requests and their tokens, added up."""

from collections import Counter
from dataclasses import dataclass, field

from hicachectl.fleet.verdicts import Lost


@dataclass(slots=True)
class Tally:
    """Requests and tokens added up; `lost` by code."""

    requests: int = 0
    prompt: int = 0
    device: int = 0
    host: int = 0
    storage: int = 0
    computed: int = 0
    new: int = 0
    tail: int = 0
    waiting: int = 0
    """Requests that never reached a prefill: they have no tokens here."""
    lost: Counter[str] = field(default_factory=Counter)
    losers: Counter[str] = field(default_factory=Counter)
    """Requests that lost tokens, by code."""

    def take(self, one: Lost) -> None:
        """Add one request."""
        self.requests += 1
        account = one.account
        if one.journey.prefix is None:
            self.waiting += 1
            return
        self.prompt += account.prompt
        self.device, self.host, self.storage = self.device + account.device, self.host + account.host, self.storage + account.storage
        self.computed, self.new, self.tail = self.computed + account.computed, self.new + account.computed - account.tail - sum(loss.tokens for loss in one.lost), self.tail + account.tail
        for loss in one.lost:
            self.lost[loss.code] += loss.tokens
        self.losers.update({loss.code for loss in one.lost})

    def add(self, other: "Tally") -> None:
        """Add all of another."""
        for name in ("requests", "prompt", "device", "host", "storage", "computed", "new", "tail", "waiting"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lost.update(other.lost)
        self.losers.update(other.losers)
