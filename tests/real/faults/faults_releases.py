"""Where rows of the bench differ between the releases: one row a difference, each with its reason."""

from dataclasses import dataclass
from typing import Any

from faults_bench import RELEASE

from hicachectl.release import Release

SPLIT = Release.of("0.5.23")
HOST, DEVICE = 8208, 4096
"""Tokens of the bench's pools."""


@dataclass(frozen=True)
class Differs:
    """One expectation of one row: what it is before 0.5.23 and from there on, and why."""

    row: str
    what: str
    before: Any
    since: Any
    why: str


ROWS = (
    Differs("F06", "rungs", [("yes", "no")], [("not_asked", "not_asked"), ("yes", "no")], "best_effort ends a prefetch at its first look, most often before the lookup's turn, which is then left out"),
    Differs("F08", "code", "HC-A19", None, "the prefetch limit is half of the host pool, not what the host pool has more than the device's: it is never 0"),
    Differs("F09", "limit", int(0.8 * (HOST - DEVICE)), int(0.5 * HOST), "the prefetch limit is half of the host pool"),
    Differs("F11", "codes", ["HC-L02", "HC-G02", "HC-W12"], ["HC-L02", "HC-W12"], "the engine's own split counts what was loaded back, not what lay on the host"),
    Differs("F11", "claimed", 8, 0, "the engine's own split counts what was loaded back, not what lay on the host"),
    Differs("F24", "code", "HC-A09", None, "the Mooncake beside it knows groups, so that they are used"),
    Differs("F28", "queued", True, False, "an exception in the backup thread ends one write and not the thread: nothing waits behind it"),
    Differs("F28", "next", "no", "yes", "an exception in the backup thread ends one write and not the thread: the next one is done"),
    Differs("F29", "code", "HC-R16", "HC-R15", "the engine catches what a read raises, and counts it as no page"),
    Differs("F29", "next", {"HC-R16": 384}, {}, "the thread lives on: the next request gets its pages"),
    Differs("standalone", "serves", True, False, "K and V are registered apart, and the dummy client of the Mooncake beside it takes a host pool only as a whole"),
    Differs("late attach", "lost", {}, {"HC-R13": 304}, "an attach works out the keys of what lies in the tree, so that what is written behind it has keys of the whole prefix"),
)


def differs(row: str, what: str) -> Differs:
    """The row of the table."""
    return next(each for each in ROWS if (each.row, each.what) == (row, what))


def expected(row: str, what: str) -> Any:
    """What ROW expects of the release under test."""
    found = differs(row, what)
    return found.since if Release.of(RELEASE) >= SPLIT else found.before
