"""Where the master's admin port is, and at what fullness the master begins to evict."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hicachectl.exits import OperatorError, UnreachableError
from hicachectl.mooncake import master
from hicachectl.mooncake.probe import processes

_WATERMARK = re.compile(r"^--?eviction_high_watermark_ratio(?:=(?P<value>.+))?$")
T = TypeVar("T")

ASK_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin port's URL, how it was found, and the watermark where the master's own command line tells it."""

    url: str
    found: str
    watermark: float | None = None


def locate(address: str, configured_port: int | None) -> Admin | None:
    """The admin port that belongs to the master at ADDRESS, None where nothing tells (a high-availability address names no host).

    A port that somebody configured is believed. Else a master on this machine is asked for the ports it listens on, because the port
    that SGLang assumes may be another master's; only then is that default taken.
    """
    if "://" in address:
        return None
    process = processes.listener(address)
    watermark = _watermark(process) if process is not None else None
    if configured_port is not None:
        return Admin(master.base_url(address, configured_port), "configured", watermark)
    if process is not None:
        for port in processes.ports_of(process):
            url = master.base_url(address, port)
            if _is_admin(url):
                return Admin(url, "the master's process on this machine", watermark)
    return Admin(master.base_url(address), "SGLang's default port", watermark)


def _is_admin(url: str) -> bool:
    try:
        master.health(url, ASK_TIMEOUT_S)
    except OperatorError:
        return False
    return True


def _watermark(process: int) -> float | None:
    """The ratio on the master's command line, in either of the two spellings that gflags takes."""
    words = processes.command_of(process)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if match := _WATERMARK.match(word):
            try:
                return float(match["value"] or after)
            except ValueError:
                return None
    return None


@dataclass(slots=True)
class Watch:
    """The master's admin port as the probe looks at it; `problem` says why it does not answer."""

    admin: Admin | None
    timeout: float = master.DEFAULT_TIMEOUT_S
    problem: str = ""
    deaf: bool = False
    """The port did not answer: it is not asked again until somebody says so, because each silence costs the whole time-out."""

    def sample(self) -> dict[str, int | float] | None:
        """Gauges and counters; None where they cannot be had."""
        return self._asked(lambda url: master.sample(url, self.timeout))

    def metrics(self) -> dict[str, int | float] | None:
        """Every metric; None where they cannot be had."""
        return self._asked(lambda url: master.metrics(url, self.timeout))

    def health(self) -> master.Health | None:
        """The master's health; None where it cannot be had."""
        return self._asked(lambda url: master.health(url, self.timeout))

    def segments(self) -> list[str]:
        """The mounted segments; none where they cannot be had."""
        return self._asked(lambda url: master.segments(url, self.timeout)) or []

    def endpoint(self, own_key: str) -> str:
        """Where the copy of an own key lies, empty where nobody tells. Leases that key alone."""
        copies = self._asked(lambda url: master.query_key(url, own_key, self.timeout))
        return copies[0].endpoint if copies else ""

    def answers_as_admin(self, address: str) -> bool:
        """Whether what listens at ADDRESS is the admin side of a master, and not the RPC side."""
        return "://" not in address and _is_admin(f"http://{address}")

    def _asked(self, question: Callable[[str], T]) -> T | None:
        if self.admin is None:
            self.problem = "no admin port is known for this master's address"
            return None
        if self.deaf:
            return None
        try:
            return question(self.admin.url)
        except OperatorError as error:
            self.problem = str(error)
            self.deaf = isinstance(error, UnreachableError)
            return None
