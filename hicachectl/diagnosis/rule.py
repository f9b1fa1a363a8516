"""A rule: which codes it can give, which spans it reads, and how it judges."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hicachectl.diagnosis.finding import Finding
from hicachectl.model.account import Account
from hicachectl.model.journey import Journey
from hicachectl.model.world import World


@dataclass(frozen=True, slots=True)
class Case:
    """One request with everything that is known of it."""

    journey: Journey
    account: Account
    world: World
    times: dict[str, float] | None = None
    """Where its time went, once that is known."""


OfCase = Callable[[Case], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Loss:
    """Pages of a request that stopped at the same place: indices into the prompt's pages."""

    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Looks at a request (`of_case`) or at the whole recording (`of_world`); `reads` names every span that it looks at.

    `needs` names those without which it has nothing to say of a request: each is to be a span of the request, on whatever rank, or one of
    its processes. The rule is not asked of others.
    """

    name: str
    codes: tuple[str, ...]
    reads: tuple[str, ...]
    of_case: OfCase | None = None
    of_world: Callable[[World], Iterable[Finding]] | None = None
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LossRule:
    """Says why lost pages at one place of the journey were lost: exactly one finding for them."""

    name: str
    codes: tuple[str, ...]
    reads: tuple[str, ...]
    judge: Callable[[Case, tuple[int, ...]], Finding]
